#include "server/engine/drift.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/engine/engine_options.h"
#include "server/engine/measured_rows.h"
#include "server/tuner/question/problem.h"
#include "tests/recorder/line_source.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

constexpr char kChip[] = "a-chip";
constexpr char kFramework[] = "a-framework";
constexpr char kQuestion[] = "tiny";

// Returns a run of a plan that was expected to take 10 s, 8 s .. 12.5 s. Each side of the interval
// is log(1.25).
MeasurementRecord RunOf(double seconds) {
  return {.source = MeasurementSource::kJobReport,
          .question = {.digest = kQuestion,
                       .chip = kChip,
                       .framework = kFramework,
                       .question = kQuestion},
          .plan_key = MakePlanKey(TinyCandidates().front()).text,
          .plan_digest = "d",
          .outcome = Outcome::kOk,
          .step_time = Seconds(seconds),
          .expected = {.step_time = Seconds(10), .low = Seconds(8), .high = Seconds(12.5)}};
}

std::vector<MeasurementRecord> RunsOf(const std::vector<double>& seconds) {
  std::vector<MeasurementRecord> runs;
  for (const double one : seconds) runs.push_back(RunOf(one));
  return runs;
}

struct DriftCase {
  std::string name;
  std::vector<double> seconds;  // newest first
  bool is_drift;
};

class DriftTest : public testing::TestWithParam<DriftCase> {};

TEST_P(DriftTest, IsFoundWhereRunsLeaveTheirIntervals) {
  EXPECT_EQ(FindDrift(RunsOf(GetParam().seconds)).has_value(), GetParam().is_drift);
}

// A run of 12.5 x 1.25^x is 1.2816 (1 + x) deviations off. The limit is 3 / sqrt(3) = 1.73 for
// three runs, 3 / sqrt(5) = 1.34 for five and 1.2816 from six on.
const DriftCase kDriftCases[] = {
    {"none", {}, false},
    {"two_far_off", {30, 30}, false},
    {"three_as_expected", {10, 11, 9}, false},
    {"three_a_tenth_slower", {11, 11, 11}, false},
    {"three_at_the_bound", {12.5, 12.5, 12.5}, false},
    {"three_far_slower", {14, 14, 14}, true},           // 1.2816 log(1.4) / log(1.25) = 1.93
    {"three_far_faster", {7, 7, 7}, true},              // 1.2816 log(10 / 7) / log(1.25) = 2.05
    {"five_just_outside", {13, 13, 13, 13, 13}, true},  // 1.51
    {"five_at_the_bound", {12.5, 12.5, 12.5, 12.5, 12.5}, false},
    {"eight_just_outside", {12.6, 12.6, 12.6, 12.6, 12.6, 12.6, 12.6, 12.6}, true},
    {"eight_inside", {12.4, 12.4, 12.4, 12.4, 12.4, 12.4, 12.4, 12.4}, false},
    {"one_far_off", {40, 10, 10, 10, 10, 10, 10, 10}, false},  // 7.96 / 8
    {"both_ways", {20, 5, 20, 5}, false},
    {"old_ones_are_forgotten", {10, 10, 10, 10, 10, 10, 10, 10, 90, 90, 90, 90, 90}, false},
    {"new_ones_count", {14, 14, 14, 14, 14, 14, 14, 14, 1, 1, 1, 1, 1, 1, 1, 1}, true},
};
INSTANTIATE_TEST_SUITE_P(All, DriftTest, testing::ValuesIn(kDriftCases),
                         [](const auto& c) { return c.param.name; });

TEST(Drift, SaysHowFar) {
  const auto drift = FindDrift(RunsOf({20, 20, 20, 20}));
  ASSERT_TRUE(drift.has_value());
  EXPECT_EQ(drift->run_count, 4);
  EXPECT_NEAR(drift->mean_ratio, 2, 1e-12);
  EXPECT_NEAR(drift->mean_deviation, 1.2815515655446004 * std::log(2.0) / std::log(1.25), 1e-9);
  EXPECT_NEAR(drift->limit, 1.5, 1e-12);  // 3 / sqrt(4)
}

TEST(Drift, RunsWithoutAnExpectationSayNothing) {
  std::vector<MeasurementRecord> runs = RunsOf({20, 20, 20, 20});
  runs[0].expected = {};
  runs[1].outcome = Outcome::kOom;
  runs[1].step_time.reset();
  EXPECT_FALSE(FindDrift(runs).has_value());  // two are left
}

absl::StatusOr<Recorder> StoreOf(const std::vector<double>& seconds) {
  auto store = Recorder::Open({.path = ":memory:"});
  std::vector<MeasurementRecord> runs = RunsOf(seconds);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].id = "m-" + std::to_string(i);
  if (const auto kept = store->InsertMeasurements(runs); !kept.ok()) return kept.status();
  return store;
}

// Reads TinyQuestion and nothing else.
StudyCodec Codec() {
  return {.decode_question = [](std::string_view text) -> absl::StatusOr<Question> {
    if (text != kQuestion) return absl::DataLossError("another program's");
    return TinyQuestion();
  }};
}

absl::StatusOr<std::optional<std::string>> WarningOf(const Recorder& store,
                                                     std::string_view framework = kFramework,
                                                     std::optional<std::int64_t> up_to = {}) {
  const StudyCodec codec = Codec();
  MeasuredRows rows(store, Known(), codec);
  return DriftWarning(rows, kChip, framework, up_to);
}

TEST(DriftWarning, IsOfTheStoresNewestRunsUpToANumber) {
  const auto store = StoreOf({10, 10, 10, 20, 20, 20, 20});
  ASSERT_TRUE(store.ok()) << store.status();
  const auto now = WarningOf(*store);
  ASSERT_TRUE(now.ok()) << now.status();
  ASSERT_TRUE(now->has_value());
  EXPECT_THAT(**now, HasSubstr("the newest 7 runs on a-chip under a-framework"));
  const auto before = WarningOf(*store, kFramework, 4);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_FALSE(before->has_value());
  EXPECT_FALSE(WarningOf(*store, "another")->has_value());
  const StudyCodec codec = Codec();
  MeasuredRows rows(*store, Known(), codec);
  EXPECT_FALSE(DriftWarning(rows, "another", kFramework, {})->has_value());
}

// Returns a store with eight reports of today that drift.
absl::StatusOr<Recorder> DriftingStore() {
  std::vector<MeasurementRecord> runs = RunsOf(std::vector<double>(8, 20));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].id = "today-" + std::to_string(i);
    runs[i].time_ms = 2000;
  }
  auto store = Recorder::Open({.path = ":memory:"});
  if (const auto kept = store->InsertMeasurements(runs); !kept.ok()) return kept.status();
  return store;
}

// Returns more runs than the 1,000 rows that a page of a list may have.
std::vector<MeasurementRecord> ManyRuns(const MeasurementRecord& run) {
  std::vector<MeasurementRecord> runs(1500, run);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].id = "many-" + std::to_string(i);
  return runs;
}

void ExpectTwice(const Recorder& store) {
  const auto warning = WarningOf(store);
  ASSERT_TRUE(warning.ok()) << warning.status();
  ASSERT_TRUE(warning->has_value());
  EXPECT_THAT(**warning, HasSubstr("the newest 8 runs"));
  EXPECT_THAT(**warning, HasSubstr("took 2.00 times their expected step times"));
}

// Imported runs of last year get newer numbers than today's runs, but hide none of them.
TEST(DriftWarning, AnImportOfManyOldRunsHidesNoNewerOnes) {
  auto store = DriftingStore();
  ASSERT_TRUE(store.ok()) << store.status();
  MeasurementRecord old = RunOf(10);
  old.time_ms = 1000;
  auto elsewhere = Recorder::Open({.path = ":memory:"});
  ASSERT_TRUE(elsewhere->InsertMeasurements(ManyRuns(old)).ok());
  std::vector<std::string> lines;
  ASSERT_TRUE(elsewhere
                  ->Export({},
                           [&lines](std::string_view line) {
                             lines.emplace_back(line);
                             return absl::OkStatus();
                           })
                  .ok());
  const auto imported = ImportMeasurements(SourceOf(lines), {}, DirectAccess(*store));
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->imported, 1500);
  ExpectTwice(*store);
}

// Newer runs without an expected time, such as those of a plan that ran again to be confirmed, hide
// none either.
TEST(DriftWarning, RunsWithoutAnExpectationHideNothing) {
  auto store = DriftingStore();
  ASSERT_TRUE(store.ok()) << store.status();
  MeasurementRecord unjudged = RunOf(10);
  unjudged.expected = {};
  unjudged.time_ms = 3000;
  ASSERT_TRUE(store->InsertMeasurements(ManyRuns(unjudged)).ok());
  ExpectTwice(*store);
}

// A way in which nothing is learnt from a measurement.
struct RefusedCase {
  std::string name;
  void (*spoil)(MeasurementRecord& run);
};

class RefusedRunTest : public testing::TestWithParam<RefusedCase> {};

// Learning leaves such runs out, and drift does too: they neither are a drift nor hide one.
TEST_P(RefusedRunTest, IsNoDrift) {
  auto store = StoreOf({10, 11, 9});
  ASSERT_TRUE(store.ok()) << store.status();
  MeasurementRecord refused = RunOf(20);
  refused.time_ms = 3000;
  GetParam().spoil(refused);
  std::vector<MeasurementRecord> runs(8, refused);
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].id = "refused-" + std::to_string(i);
  ASSERT_TRUE(store->InsertMeasurements(runs).ok());
  const auto warning = WarningOf(*store);
  ASSERT_TRUE(warning.ok()) << warning.status();
  EXPECT_FALSE(warning->has_value()) << **warning;
}

TEST_P(RefusedRunTest, HidesNoDrift) {
  auto store = DriftingStore();
  ASSERT_TRUE(store.ok()) << store.status();
  MeasurementRecord refused = RunOf(10);
  refused.time_ms = 3000;
  GetParam().spoil(refused);
  std::vector<MeasurementRecord> runs(150, refused);  // more than are read at once
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].id = "refused-" + std::to_string(i);
  ASSERT_TRUE(store->InsertMeasurements(runs).ok());
  ExpectTwice(*store);
}

// The tiny model's 83 million parameters, 16 x 1024 tokens and 6 operations each are 8e12
// operations; four A100 have 1.2e15 a second, so that no step is shorter than 6 ms.
const RefusedCase kRefusedCases[] = {
    {"an_unreadable_plan", [](MeasurementRecord& run) { run.plan_key = "k"; }},
    {"a_plan_for_other_devices",
     [](MeasurementRecord& run) {
       ParallelPlan plan = TinyCandidates().front();
       plan.data_parallel = 8;
       run.plan_key = MakePlanKey(plan).text;
     }},
    {"an_unreadable_question",
     [](MeasurementRecord& run) { run.question.digest = run.question.question = "theirs"; }},
    {"faster_than_the_devices",
     [](MeasurementRecord& run) {
       run.step_time = Seconds(1e-4);
       run.expected = {.step_time = Seconds(1e-3), .low = Seconds(8e-4), .high = Seconds(1.2e-3)};
     }},
};
INSTANTIATE_TEST_SUITE_P(All, RefusedRunTest, testing::ValuesIn(kRefusedCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
