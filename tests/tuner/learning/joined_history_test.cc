#include "server/tuner/learning/joined_history.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

constexpr std::int64_t kSequence = 7;

HistorySource Storing(const std::vector<HistoryRow>& rows) {
  return {.sequence = kSequence, .read = [rows](const Problem&) -> absl::StatusOr<StoreHistory> {
            return StoreHistory{.rows = rows, .warnings = {"of the store"}};
          }};
}

// As the store has it: every field of the plan is stated.
HistoryRow Stored() {
  const ParallelPlan plan =
      ResolvePlan({.tensor_parallel = 2}, Resolved(TinyQuestion()), "plan").value().plan;
  return {.question = TinyQuestion(),
          .plan = StatedPlan(plan),
          .step_time = Seconds(0.25),
          .peak_memory = GiB(9),
          .measurement_id = "m-1"};
}

// The same run as a user states it.
HistoryRow Own() {
  HistoryRow row = Stored();
  row.measurement_id.clear();
  row.plan = {.tensor_parallel = 2};
  row.question.model.name = "by another name";
  return row;
}

StudyRequest Joined(std::vector<HistoryRow> own, const std::vector<HistoryRow>& stored) {
  return WithStoreHistory({.question = TinyQuestion(), .history = std::move(own)},
                          Resolved(TinyQuestion()), Known(), Storing(stored))
      .value();
}

TEST(JoinedHistoryTest, TheStoresRowsComeBehindTheRequests) {
  HistoryRow other = Own();
  other.step_time = Seconds(0.5);
  const StudyRequest joined = Joined({other}, {Stored()});
  ASSERT_EQ(joined.history.size(), 2u);
  EXPECT_EQ(joined.history[0].measurement_id, "");
  EXPECT_EQ(joined.history[1].measurement_id, "m-1");
  EXPECT_EQ(joined.history_sequence, kSequence);
  EXPECT_EQ(joined.history_warnings, std::vector<std::string>{"of the store"});
}

TEST(JoinedHistoryTest, WithoutAStoreNothingJoins) {
  const auto joined = WithStoreHistory({.history = {Own()}, .history_sequence = 9},
                                       Resolved(TinyQuestion()), Known(), {});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->history.size(), 1u);
  EXPECT_EQ(joined->history_sequence, 0);
}

// It counts for what the store's row alone would.
TEST(JoinedHistoryTest, ARunInBothCountsOnce) {
  const auto report = [](const StudyRequest& request) {
    return LearnCalibration(request, Resolved(TinyQuestion()), Known()).value().report;
  };
  const auto alone = report(Joined({}, {Stored()}));
  const auto both = report(Joined({Own()}, {Stored()}));
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->run_count, 1);
  EXPECT_EQ(both->id, alone->id);
  EXPECT_EQ(both->time_ratio, alone->time_ratio);
  EXPECT_EQ(both->evidence[0].measurement_id, "m-1");
}

TEST(JoinedHistoryTest, ARunThatWasMadeTwiceCountsTwice) {
  HistoryRow again = Stored();
  again.measurement_id = "m-2";
  const StudyRequest twice_own = Joined({Own(), Own()}, {Stored()});
  ASSERT_EQ(twice_own.history.size(), 2u);
  EXPECT_EQ(twice_own.history[0].measurement_id, "m-1");
  EXPECT_EQ(twice_own.history[1].measurement_id, "");
  const StudyRequest twice_stored = Joined({Own()}, {Stored(), again});
  ASSERT_EQ(twice_stored.history.size(), 2u);
  EXPECT_EQ(twice_stored.history[0].measurement_id, "m-1");
  EXPECT_EQ(twice_stored.history[1].measurement_id, "m-2");
}

struct Difference {
  const char* name;
  void (*make)(HistoryRow& row);
};

class JoinedHistoryOther : public testing::TestWithParam<Difference> {};

TEST_P(JoinedHistoryOther, IsAnotherRun) {
  HistoryRow other = Own();
  GetParam().make(other);
  EXPECT_EQ(Joined({other}, {Stored()}).history.size(), 2u);
}

constexpr Difference kDifferences[] = {
    {"Job", [](HistoryRow& row) { row.question.workload.global_batch_size = 32; }},
    {"Plan", [](HistoryRow& row) { row.plan.tensor_parallel = 4; }},
    {"Outcome", [](HistoryRow& row) { row.outcome = Outcome::kCrash; }},
    {"StepTime", [](HistoryRow& row) { row.step_time = Seconds(0.25 + 1e-12); }},
    {"PeakMemory", [](HistoryRow& row) { row.peak_memory.reset(); }},
};

INSTANTIATE_TEST_SUITE_P(All, JoinedHistoryOther, testing::ValuesIn(kDifferences),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace meshwright
