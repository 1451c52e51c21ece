#include "server/tuner/learning/history_runs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/prepared.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr std::int64_t kSequence = 7;

HistorySource Storing(const std::vector<HistoryRow>& rows) {
  return {.sequence = kSequence, .read = [rows](const Problem&) -> absl::StatusOr<StoreHistory> {
            return StoreHistory{.rows = Shared(ResolvedRows(rows)), .warnings = {"of the store"}};
          }};
}

// Returns the run as the store has it: every field of the plan is stated.
HistoryRow Stored() {
  const ParallelPlan plan =
      ResolvePlan({.tensor_parallel = 2}, Resolved(TinyQuestion()), "plan").value().plan;
  return {.question = TinyQuestion(),
          .plan = StatedPlan(plan),
          .step_time = Seconds(0.25),
          .peak_memory = GiB(9),
          .measurement_id = "m-1"};
}

// Returns the same run as a user states it.
HistoryRow Own() {
  HistoryRow row = Stored();
  row.measurement_id.clear();
  row.plan = {.tensor_parallel = 2};
  row.question.model.name = "by another name";
  return row;
}

PreparedQuestion Joined(std::vector<HistoryRow> own, const std::vector<HistoryRow>& stored) {
  return Prepared({.question = TinyQuestion(), .history = std::move(own)}, Storing(stored));
}

TEST(HistoryRunsTest, TheStoresRowsComeBehindTheRequests) {
  HistoryRow other = Own();
  other.step_time = Seconds(0.5);
  const PreparedQuestion joined = Joined({other}, {Stored()});
  ASSERT_EQ(joined.runs.size(), 2u);
  EXPECT_EQ(joined.runs[0].measurement_id, "");
  EXPECT_EQ(joined.runs[1].measurement_id, "m-1");
  EXPECT_EQ(joined.request.history_sequence, kSequence);
  EXPECT_EQ(joined.request.warnings, std::vector<std::string>{"of the store"});
}

// A store has the runs of each kind of chips apart: those of mixes are with the first pool's.
TEST(HistoryRunsTest, TheStoreIsReadForEachPool) {
  Question question = TinyQuestion();
  question.cluster.pools.push_back(question.cluster.pools.front());
  question.cluster.pools.front().name = "a";
  question.cluster.pools.back().name = "b";
  question.cluster.pools.back().chip = "nvidia-h100-sxm5-80gb";
  question.cluster.inter_pool.bandwidth_per_node = BytesPerSecond{25e9};
  std::vector<std::string> asked;
  const auto read = [&asked](const Problem& problem) -> absl::StatusOr<StoreHistory> {
    std::string chips;
    for (const NodePool& pool : problem.cluster.pools) chips += pool.chip.id + " ";
    asked.push_back(chips);
    HistoryRow own = Stored();
    own.measurement_id = problem.cluster.pools.front().chip.id;
    return StoreHistory{.rows = Shared(ResolvedRows({own})), .warnings = {"of the store"}};
  };
  const PreparedQuestion prepared =
      Prepared({.question = question}, {.sequence = kSequence, .read = read});
  const std::string a = prepared.problem.cluster.pools.front().chip.id;
  const std::string b = prepared.problem.cluster.pools.back().chip.id;
  EXPECT_EQ(asked, (std::vector{a + " " + b + " ", a + " ", b + " "}));
  ASSERT_EQ(prepared.runs.size(), 2u);
  EXPECT_EQ(prepared.runs[0].measurement_id, a);
  EXPECT_EQ(prepared.runs[1].measurement_id, b);
  EXPECT_EQ(prepared.request.warnings, std::vector<std::string>{"of the store"});
}

TEST(HistoryRunsTest, WithoutAStoreNothingJoins) {
  const PreparedQuestion prepared =
      Prepared({.question = TinyQuestion(), .history = {Own()}, .history_sequence = 9});
  EXPECT_EQ(prepared.runs.size(), 1u);
  EXPECT_EQ(prepared.request.history_sequence, 0);
}

// It counts for as much as the store's row would.
TEST(HistoryRunsTest, ARunInBothCountsOnce) {
  const auto alone = Joined({}, {Stored()}).learnt.report;
  const auto both = Joined({Own()}, {Stored()}).learnt.report;
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->run_count, 1);
  EXPECT_EQ(both->id, alone->id);
  EXPECT_EQ(both->time_ratio, alone->time_ratio);
  EXPECT_EQ(both->evidence[0].measurement_id, "m-1");
}

TEST(HistoryRunsTest, ARunThatWasMadeTwiceCountsTwice) {
  HistoryRow again = Stored();
  again.measurement_id = "m-2";
  const PreparedQuestion twice_own = Joined({Own(), Own()}, {Stored()});
  ASSERT_EQ(twice_own.runs.size(), 2u);
  EXPECT_EQ(twice_own.runs[0].measurement_id, "m-1");
  EXPECT_EQ(twice_own.runs[1].measurement_id, "");
  const PreparedQuestion twice_stored = Joined({Own()}, {Stored(), again});
  ASSERT_EQ(twice_stored.runs.size(), 2u);
  EXPECT_EQ(twice_stored.runs[0].measurement_id, "m-1");
  EXPECT_EQ(twice_stored.runs[1].measurement_id, "m-2");
}

// Runs of one question have one problem between them: the question was resolved once.
TEST(HistoryRunsTest, RowsOfOneQuestionAreResolvedOnce) {
  HistoryRow other = Own();
  other.question.workload.global_batch_size = 32;
  const auto runs = Joined({Own(), other, Own(), other}, {}).runs;
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0].stated, runs[2].stated);
  EXPECT_EQ(runs[1].stated, runs[3].stated);
  EXPECT_NE(runs[0].stated, runs[1].stated);
  for (const ResolvedRun& run : runs) EXPECT_EQ(run.problem, run.stated);
  EXPECT_TRUE(runs[0].is_same_job);
  EXPECT_FALSE(runs[1].is_same_job);
}

// A row resolved at the edge is used as it is: one that says otherwise is not looked at again.
TEST(HistoryRunsTest, ARowThatWasCheckedIsNotResolvedAgain) {
  HistoryRow row = Own();
  const auto problem = std::make_shared<const Problem>(Resolved(row.question));
  row.resolved =
      ResolvedJob{.problem = problem, .plan = {.tensor_parallel = 2, .data_parallel = 2}};
  row.question.model.layer_count = 0;
  row.plan = {.tensor_parallel = 3};
  const auto runs = Joined({row}, {row}).runs;
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].stated, problem);
  EXPECT_EQ(runs[0].plan, row.resolved.plan);
}

// The question's framework facts take the place of a run's own, which makes one more problem.
TEST(HistoryRunsTest, ARunIsHeldAgainstTheQuestionsFacts) {
  HistoryRow row = Own();
  row.question.workload.framework_facts = {{.name = "fixed_per_step_seconds", .value = "0.01"}};
  const auto runs = Joined({row, row}, {}).runs;
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].stated->framework_facts, row.question.workload.framework_facts);
  EXPECT_TRUE(runs[0].problem->framework_facts.empty());
  EXPECT_EQ(runs[0].problem, runs[1].problem);
  EXPECT_TRUE(runs[0].is_same_job);
  EXPECT_FALSE(runs[0].is_by_own_facts);
}

struct Difference {
  const char* name;
  void (*make)(HistoryRow& row);
};

class HistoryRunsOther : public testing::TestWithParam<Difference> {};

TEST_P(HistoryRunsOther, IsAnotherRun) {
  HistoryRow other = Own();
  GetParam().make(other);
  EXPECT_EQ(Joined({other}, {Stored()}).runs.size(), 2u);
}

constexpr Difference kDifferences[] = {
    {"Job", [](HistoryRow& row) { row.question.workload.global_batch_size = 32; }},
    {"Plan", [](HistoryRow& row) { row.plan.tensor_parallel = 4; }},
    {"Outcome", [](HistoryRow& row) { row.outcome = Outcome::kCrash; }},
    {"StepTime", [](HistoryRow& row) { row.step_time = Seconds(0.25 + 1e-12); }},
    {"PeakMemory", [](HistoryRow& row) { row.peak_memory.reset(); }},
};

INSTANTIATE_TEST_SUITE_P(All, HistoryRunsOther, testing::ValuesIn(kDifferences),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
