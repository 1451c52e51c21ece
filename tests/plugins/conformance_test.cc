#include "server/plugins/conformance/conformance.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <vector>

#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_process.h"
#include "server/tuner/question/problem.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

constexpr std::size_t kChecks = 21;
constexpr char kThroughput[] = "throughput";  // its outcome depends on the load of the machine

std::vector<std::string> FailedChecks(const ConformanceReport& report) {
  std::vector<std::string> names;
  for (const CheckResult& check : report.checks) {
    if (check.outcome == CheckOutcome::kFailed) names.push_back(check.name);
  }
  return names;
}

std::string Failures(const ConformanceReport& report) {
  std::string text;
  for (const CheckResult& check : report.checks) {
    const bool counts = check.name != kThroughput;
    if (counts && check.outcome == CheckOutcome::kFailed) {
      text += check.name + ": " + check.detail + "\n";
    }
  }
  return text;
}

const CheckResult& Found(const ConformanceReport& report, const std::string& name) {
  static const CheckResult kNone = {.detail = "there is no such check"};
  const auto check = std::ranges::find(report.checks, name, &CheckResult::name);
  return check == report.checks.end() ? kNone : *check;
}

// Gives a start longer than models promise, because other tests run at the same time.
ConformanceReport CheckAtLeisure(const ProcessSpec& model, const Problem& problem,
                                 std::chrono::seconds start = std::chrono::seconds(30)) {
  return CheckConformance(model, problem, start);
}

class TemplateTest : public testing::TestWithParam<bool> {};

TEST_P(TemplateTest, PassesEveryCheck) {
  const ModelManifest manifest = GetParam() ? CppTemplate() : CTemplate();
  const ConformanceReport report = CheckAtLeisure(SpecOf(manifest).value(), SmallProblem());
  EXPECT_EQ(Failures(report), "") << report.log_tail;
  EXPECT_EQ(report.checks.size(), kChecks);
  for (const CheckResult& check : report.checks) {
    const bool is_lacking = !GetParam() && check.name == "calibration";
    EXPECT_EQ(check.outcome == CheckOutcome::kSkipped, is_lacking) << check.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TemplateTest, testing::Bool(),
                         [](const auto& row) { return row.param ? "Cpp" : "C"; });

// The bad model passes in all of its modes but one: as a whole, and with the parts that a model may
// lack.
class SaneModelTest : public testing::TestWithParam<std::string> {};

TEST_P(SaneModelTest, PassesEveryCheck) {
  const ConformanceReport report =
      CheckAtLeisure(SpecOf(BadModel(GetParam())).value(), SmallProblem());
  EXPECT_EQ(Failures(report), "") << report.log_tail;
  EXPECT_EQ(report.checks.size(), kChecks);
}

INSTANTIATE_TEST_SUITE_P(All, SaneModelTest,
                         testing::Values("good", "bounds", "explain", "calibration", "batch"),
                         [](const auto& row) { return row.param; });

// No plan of the usual question would fit a device of 4 GiB.
TEST(ConformanceTest, AsksOfSmallDevicesWhatFits) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const Problem problem = ConformanceProblem("cpu-generic", {}, knowledge).value();
  const ConformanceReport report = CheckAtLeisure(SpecOf(CppTemplate()).value(), problem);
  EXPECT_EQ(Failures(report), "") << report.log_tail;
  EXPECT_EQ(Found(report, "units").outcome, CheckOutcome::kPassed);
}

// Each model is wrong in one way. The check for that fails, and no other.
struct Case {
  std::string name;  // the mode
  std::string check;
  std::string detail;
  // Checks that fail as a consequence. "*" stands for all that ask what the model fails on.
  std::vector<std::string> also = {};
  std::chrono::seconds start = std::chrono::seconds(30);
};

const Case kCases[] = {
    {"crash_at_start", "handshake", "no licence found"},
    // The whole time to start is waited for.
    {"garbage",
     "handshake",
     "did not answer by gRPC there within 8 s; it wrote",
     {},
     std::chrono::seconds(8)},
    {"not_serving", "handshake", "it is not serving"},
    {"handshake_name", "handshake", "'The Bad Model' is not lower-case letters"},
    {"handshake_chips", "handshake", "no chips"},
    {"handshake_precisions", "handshake", "no precisions"},
    {"wrong_version", "versions", "protocol 9.0; this program speaks 1.0"},
    {"version_empty", "versions", "does not state its version"},
    {"version_garbled", "versions", "its version ' [2J 1' is not"},
    {"version_echo", "versions", "a caller of protocol 999.0 is told that the model speaks 999.0"},
    {"version_strict", "versions", "a caller of protocol 1.999 is refused"},
    {"version_fields", "versions", "with fields of a later minor version a question is refused"},
    {"wrong_shape", "answers", "entries", {"*"}},
    {"crash_on_candidate", "answers", "signal 6", {"*"}},
    {"no_reason", "answers", "is not OK and has no reason"},
    {"lie_provenance", "answers", "its provenance 'guessed'"},
    {"milliseconds", "units", "of the nominal peak: are its times in seconds?"},
    {"lie_nan", "physics", "nan"},
    {"lie_negative", "physics", "-1"},
    {"lie_fast", "physics", "nominal peak"},
    {"lie_memory", "physics", "peak memory", {"memory"}},  // less than the parameters and the rest
    {"lie_interval", "physics", "its interval"},
    {"lie_breakdown", "physics", "its breakdown adds up to"},
    {"wrong_units", "physics", "nominal peak"},
    {"slow_memory", "monotony", "with double memory bandwidth"},
    {"slow_node", "monotony", "with double bandwidth in the node"},
    {"slow_network", "monotony", "with double bandwidth between nodes"},
    {"less_memory", "monotony", "is no longer OK"},
    {"scaling_slow", "scaling", "the time changes by a factor of 2;"},
    {"scaling_fast", "scaling", "the time changes by a factor of 0.5;"},
    {"guess_precisions", "refusals", "an unknown precision is estimated, not refused"},
    {"guess_kernels", "refusals", "an unknown attention kernel is estimated, not refused"},
    {"guess_chips", "refusals", "an unknown chip is estimated, not refused"},
    {"guess_operators", "refusals",
     "moe, which is not among its operators, is estimated, not refused"},
    {"guess_silently", "refusals",
     "moe, which is not among its operators, is estimated, not refused"},
    {"guess_schedules", "refusals", "an unknown schedule is estimated, not refused"},
    {"refuse_wrongly", "refusals", "but not as INVALID_ARGUMENT"},
    // 6.738e9 parameters x (2 + 2 + 12); 1.5 x 6.738e9 x (2 + 4 + 12) + 16e9.
    {"memory_weights", "memory", "must be from 107.8, the size of the states, to 197.9"},
    // 6.738e9 x 16, in place of x (2 + 2 + 12/16); 1.5 x 6.738e9 x (2 + 4 + 12/16) + 16e9.
    {"memory_unsharded", "memory",
     "is 107.8 GB; must be from 32.01, the size of the states, to 84.23"},
    {"memory_endless", "memory", "is not INFEASIBLE_MEMORY in"},
    {"memory_tight", "memory", "and is INFEASIBLE_MEMORY in"},
    {"bounds_high", "lower_bound", "estimated below its lower bound"},
    {"bounds_wrong_shape", "lower_bound", "does not have one entry"},
    {"bounds_crash", "lower_bound", "signal 6"},
    {"explain_crash", "explain", "signal 6"},
    {"explain_silent", "explain", "no lines"},
    {"explain_many", "explain", "two candidates"},
    {"calibration_large", "calibration", "must be 1 to 1048576"},
    {"calibration_empty", "calibration", "must be 1 to 1048576"},
    {"calibration_guess", "calibration", "not a number is accepted"},
    {"calibration_garbage", "calibration", "garbage are accepted"},
    {"calibration_unit", "calibration", "no unit"},
    {"calibration_bounds_high", "calibration", "with the fitted parameters: "},
    {"nondeterministic", "determinism", "again: "},
    {"depends_on_order", "determinism", "in another order: "},
    {"depends_on_batch", "determinism", "alone: "},
    {"depends_on_process", "determinism", "in another process: "},
    {"batch_empty", "batches", "a batch of 0"},
    {"batch_largest", "batches", "a batch of 4096"},
    {"batch_oversized", "batches", "a batch of 4097, above its limit, is not refused"},
    {"takes_questions", "malformed", "a question with no pool is answered"},
    {"takes_ragged", "malformed", "columns of unequal length are answered"},
    {"takes_rows", "malformed", "a candidate with size 0 is OK"},
    {"bad_row_fails_all", "malformed", "a candidate with size 0 fails the whole batch"},
    {"bad_row_spoils", "malformed", "changes the answer about another candidate"},
    {"context_unknown", "contexts", "never opened is not NOT_FOUND"},
    {"context_same", "contexts", "the same id"},
    {"context_last", "contexts", "changes the answers of the first"},
    {"context_kept", "contexts", "closed is not NOT_FOUND"},
    {"context_shared", "contexts", "closes others"},
    {"cancel_deaf", "cancellation", "it does not answer"},
    {"cancel_crash", "cancellation", "signal 6"},
    {"cancel_forgets", "cancellation", "NOT_FOUND"},
    {"racing", "concurrency", "4 callers at once: "},
    {"leak_contexts", "leaks", "MiB more after 200 contexts"},
    {"slow", "throughput", "must be 20000"},
    {"promise", "throughput", "must be 1000000000000"},
};

void ExpectFailsItsCheckAlone(const Case& bad) {
  const ModelFolders folders;
  const ConformanceReport report =
      CheckAtLeisure(SpecOf(BadModel(bad.name)).value(), SmallProblem(), bad.start);
  EXPECT_FALSE(IsPassed(report));
  const CheckResult& check = Found(report, bad.check);
  EXPECT_EQ(check.outcome, CheckOutcome::kFailed) << check.detail;
  EXPECT_THAT(check.detail, HasSubstr(bad.detail));
  std::vector<std::string> failed = FailedChecks(report);
  if (bad.check != kThroughput) std::erase(failed, kThroughput);
  std::vector<std::string> expected = bad.also;
  expected.push_back(bad.check);
  if (expected.front() != "*") {
    EXPECT_THAT(failed, UnorderedElementsAreArray(expected)) << Failures(report);
  }
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
}

// Returns the cases of models that break the protocol, or of those that answer with wrong numbers.
std::vector<Case> Cases(bool answers_wrong_numbers) {
  constexpr std::string_view kOfNumbers[] = {"units",  "physics",     "monotony",    "scaling",
                                             "memory", "lower_bound", "determinism", "refusals"};
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  std::erase_if(cases, [&](const Case& c) {
    const bool is_of_numbers = std::ranges::find(kOfNumbers, c.check) != std::end(kOfNumbers);
    return is_of_numbers != answers_wrong_numbers;
  });
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& row) {
  return row.param.name + "_" + row.param.check;
}

class BadModelTest : public testing::TestWithParam<Case> {};

TEST_P(BadModelTest, FailsItsCheckAlone) { ExpectFailsItsCheckAlone(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, BadModelTest, testing::ValuesIn(Cases(false)), NameOf);

// Sanitizers see nothing more in these, so that only the release preset runs them.
class BadNumbersTest : public testing::TestWithParam<Case> {};

TEST_P(BadNumbersTest, FailsItsCheckAlone) { ExpectFailsItsCheckAlone(GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, BadNumbersTest, testing::ValuesIn(Cases(true)), NameOf);

TEST(BadModelTableTest, HasEveryCheck) {
  const ConformanceReport report = CheckAtLeisure(SpecOf(CppTemplate()).value(), SmallProblem());
  for (const CheckResult& check : report.checks) {
    const bool is_there = std::ranges::find(kCases, check.name, &Case::check) != std::end(kCases);
    EXPECT_TRUE(is_there || check.name == "restarts") << check.name;  // the test below
  }
}

// It starts twice, at first and for the check of determinism, and not again: the last check fails.
TEST(RestartTest, AModelThatCannotStartAgainFails) {
  const TemporaryFolder folder;
  const std::string tokens = folder.path() + "/tokens";
  ASSERT_EQ(mkfifo(tokens.c_str(), 0666), 0);
  const int fifo = open(tokens.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(write(fifo, "12", 2), 2);
  ModelManifest manifest = BadModel("good");
  manifest.arguments.insert(manifest.arguments.end(), {"--tokens", tokens});
  const ConformanceReport report = CheckAtLeisure(SpecOf(manifest).value(), SmallProblem());
  close(fifo);
  const CheckResult& check = Found(report, "restarts");
  EXPECT_EQ(check.outcome, CheckOutcome::kFailed);
  EXPECT_THAT(check.detail, HasSubstr("restart 1 of 3"));
  EXPECT_THAT(check.detail, HasSubstr("no licence found"));
  EXPECT_EQ(Failures(report), "restarts: " + check.detail + "\n");
}

// A model that dies in the middle, and cannot be started again, ends the list there.
TEST(RestartTest, AModelThatIsGoneIsAskedNothingMore) {
  const TemporaryFolder folder;
  const std::string tokens = folder.path() + "/tokens";
  ASSERT_EQ(mkfifo(tokens.c_str(), 0666), 0);
  const int fifo = open(tokens.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(write(fifo, "1", 1), 1);
  ModelManifest manifest = BadModel("crash_on_candidate");
  manifest.arguments.insert(manifest.arguments.end(), {"--tokens", tokens});
  const ConformanceReport report = CheckAtLeisure(SpecOf(manifest).value(), SmallProblem());
  close(fifo);
  EXPECT_THAT(FailedChecks(report), testing::ElementsAre("answers", "units"));
  EXPECT_THAT(report.checks.back().detail, HasSubstr("it cannot be started again"));
}

// It states no max_concurrent_batches, which is 1.
TEST(ConcurrencyTest, AModelOfOneCallerIsNotAskedByMore) {
  const ConformanceReport report = CheckAtLeisure(SpecOf(BadModel("good")).value(), SmallProblem());
  const CheckResult& check = Found(report, "concurrency");
  EXPECT_EQ(check.outcome, CheckOutcome::kSkipped);
  EXPECT_THAT(check.detail, HasSubstr("one batch at a time"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
