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
  EXPECT_EQ(report.checks.size(), 17U);
  for (const CheckResult& check : report.checks) {
    EXPECT_NE(check.outcome, CheckOutcome::kSkipped) << check.name;
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
    {"good", "refusals", "guessed"},
    {"good", "contexts", "NOT_FOUND"},
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

INSTANTIATE_TEST_SUITE_P(All, BadModelTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name + "_" + row.param.check; });

}  // namespace
}  // namespace meshwright
