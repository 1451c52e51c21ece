#include "server/plugins/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/plugins/sanitizer.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string Failures(const ConformanceReport& report) {
  std::string text;
  for (const CheckResult& check : report.checks) {
    const bool counts = check.name != "throughput";  // that of a machine that others use too
    if (counts && check.outcome == CheckOutcome::kFailed)
      text += check.name + ": " + check.detail + "\n";
  }
  return text;
}

class TemplateTest : public testing::TestWithParam<bool> {};

TEST_P(TemplateTest, PassesEveryCheck) {
  const ModelManifest manifest = GetParam() ? CppTemplate() : CTemplate();
  const ConformanceReport report = CheckConformance(SpecOf(manifest).value(), SmallProblem());
  EXPECT_EQ(Failures(report), "") << report.log_tail;
  EXPECT_EQ(report.checks.size(), 19U);
  for (const CheckResult& check : report.checks) {
    const bool is_lacking = !GetParam() && check.name == "calibration";
    EXPECT_EQ(check.outcome == CheckOutcome::kSkipped, is_lacking) << check.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TemplateTest, testing::Bool(),
                         [](const auto& row) { return row.param ? "Cpp" : "C"; });

struct Case {
  std::string name;  // mode
  std::string check;
  std::string detail;
};

const Case kCases[] = {
    {"crash_at_start", "handshake", "no licence found"},
    {"wrong_version", "handshake", "protocol 9.0"},
    {"garbage", "handshake", ""},
    {"lie_nan", "physics", "nan"},
    {"lie_negative", "physics", "-1"},
    {"lie_fast", "physics", "nominal peak"},
    {"lie_memory", "physics", "peak memory"},
    {"wrong_units", "physics", "nominal peak"},
    {"wrong_shape", "answers", "entries"},
    {"crash_on_candidate", "answers", "signal 6"},
    {"nondeterministic", "determinism", "again"},
    {"leak", "leaks", ""},
    {"slow", "throughput", "must be 20000"},
    {"bounds_high", "lower_bound", "faster than its bound"},
    {"explain_crash", "explain", "signal 6"},
    {"calibration_large", "calibration", "must be 1 to 1048576"},
    {"calibration_guess", "calibration", "not a number is taken"},
    {"calibration_garbage", "calibration", "garbage are taken"},
    {"calibration_bounds_high", "calibration", "with what it fitted: "},
    {"good", "refusals", "guessed"},
    {"guess_operators", "refusals", "moe, which is not among its operators, is guessed"},
    {"good", "contexts", "NOT_FOUND"},
    {"good", "malformed", "a question with no pool is answered"},
};

class BadModelTest : public testing::TestWithParam<Case> {};

TEST_P(BadModelTest, FailsTheCheck) {
  if (kHasAddressSanitizer && GetParam().name == "leak") {
    GTEST_SKIP() << "AddressSanitizer leaves no limit of address space";
  }
  const ModelFolders folders;
  const ConformanceReport report =
      CheckConformance(SpecOf(BadModel(GetParam().name)).value(), SmallProblem());
  EXPECT_FALSE(IsPassed(report));
  const auto check = std::ranges::find(report.checks, GetParam().check, &CheckResult::name);
  ASSERT_NE(check, report.checks.end());
  EXPECT_EQ(check->outcome, CheckOutcome::kFailed);
  EXPECT_THAT(check->detail, HasSubstr(GetParam().detail));
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
}

// It states no max_concurrent_batches, which is 1.
TEST(ConcurrencyTest, AModelOfOneCallerIsNotAskedByMore) {
  const ConformanceReport report =
      CheckConformance(SpecOf(BadModel("good")).value(), SmallProblem());
  const auto check = std::ranges::find(report.checks, "concurrency", &CheckResult::name);
  ASSERT_NE(check, report.checks.end());
  EXPECT_EQ(check->outcome, CheckOutcome::kSkipped);
  EXPECT_THAT(check->detail, HasSubstr("one batch at a time"));
}

INSTANTIATE_TEST_SUITE_P(All, BadModelTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name + "_" + row.param.check; });

}  // namespace
}  // namespace meshwright
