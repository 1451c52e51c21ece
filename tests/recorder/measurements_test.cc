#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

class MeasurementsTest : public testing::TestWithParam<StorePlace> {
 protected:
  MeasurementsTest() { Open(); }
  void Open() {
    auto opened = Recorder::Open({.path = store_.address()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  void Reopen() {
    recorder_.reset();
    Open();
  }
  absl::Status Insert(const std::vector<MeasurementRecord>& measurements) {
    return recorder_->InsertMeasurements(measurements).status();
  }
  std::vector<std::string> Ids(const MeasurementFilter& filter, MeasurementOrder order,
                               int page_size) {
    std::vector<std::string> ids;
    std::string token;
    do {
      const auto page = recorder_->ListMeasurements(filter, order, page_size, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const MeasurementRecord& measurement : page->measurements) {
        ids.push_back(measurement.id);
      }
      token = page->next_page_token;
    } while (!token.empty());
    return ids;
  }

  TestStore store_{GetParam()};
  std::optional<Recorder> recorder_;
};

MeasurementRecord Full() {
  MeasurementRecord full = MakeMeasurement("m");
  full.study_id = "gone";
  full.expected = {.step_time = Seconds(1.25),
                   .low = Seconds(1.0),
                   .high = Seconds(1.5),
                   .peak_memory = GiB(39),
                   .calibration_id = "c"};
  full.request_id = "r";
  full.request_hash = "h";
  full.note = "as told";
  return full;
}

TEST_P(MeasurementsTest, KeepsEveryField) {
  const auto inserted = recorder_->InsertMeasurements(std::vector{Full(), MakeMeasurement("n")});
  ASSERT_TRUE(inserted.ok()) << inserted.status();
  MeasurementRecord expected = Full();
  expected.sequence = 1;
  EXPECT_EQ(inserted->at(0).measurement, expected);
  EXPECT_TRUE(inserted->at(0).is_new);
  EXPECT_EQ(inserted->at(1).measurement.sequence, 2);
  Reopen();
  EXPECT_EQ(*recorder_->GetMeasurement("m"), expected);
  EXPECT_EQ(*recorder_->GetQuestion(expected.question.digest), expected.question);
  expected.question.question = "";
  EXPECT_EQ(recorder_->ListMeasurements({}, MeasurementOrder::kNewest, 0, "")->measurements.at(1),
            expected);
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 2);
  EXPECT_EQ(Reason(recorder_->GetMeasurement("x").status()), "UNKNOWN_MEASUREMENT");
  EXPECT_EQ(Reason(recorder_->GetQuestion("x").status()), "UNKNOWN_QUESTION");
}

TEST_P(MeasurementsTest, ARequestSentTwiceStoresOnce) {
  ASSERT_TRUE(Insert({Full()}).ok());
  MeasurementRecord again = Full();
  again.id = "made anew";
  const auto inserted = recorder_->InsertMeasurements(std::vector{MakeMeasurement("n"), again});
  ASSERT_TRUE(inserted.ok()) << inserted.status();
  EXPECT_TRUE(inserted->at(0).is_new);
  EXPECT_FALSE(inserted->at(1).is_new);
  EXPECT_EQ(inserted->at(1).measurement, *recorder_->GetMeasurement("m"));
  again.request_hash = "other";
  const absl::Status reused = Insert({MakeMeasurement("o"), again});
  EXPECT_TRUE(absl::IsInvalidArgument(reused));
  EXPECT_EQ(Reason(reused), "REQUEST_ID_REUSED");
  EXPECT_THAT(Ids({}, MeasurementOrder::kNewest, 0), ElementsAre("n", "m"));  // not "o"
}

TEST_P(MeasurementsTest, AllOrNone) {
  ASSERT_TRUE(Insert({MakeMeasurement("m")}).ok());
  const absl::Status used = Insert({MakeMeasurement("n"), MakeMeasurement("m")});
  EXPECT_TRUE(absl::IsAlreadyExists(used));
  EXPECT_EQ(Reason(used), "MEASUREMENT_EXISTS");
  MeasurementRecord without = MakeMeasurement("w", "another model");
  without.step_time = {};
  EXPECT_TRUE(absl::IsInvalidArgument(Insert({without})));
  EXPECT_TRUE(absl::IsInvalidArgument(Insert({MakeMeasurement("")})));
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 1);
  EXPECT_FALSE(recorder_->GetQuestion(without.question.digest).ok());
  without.outcome = Outcome::kHang;
  EXPECT_TRUE(Insert({without}).ok());
}

TEST_P(MeasurementsTest, FiltersAndOrders) {
  std::vector<MeasurementRecord> rows;
  for (int i = 0; i < 12; ++i) {
    MeasurementRecord row =
        MakeMeasurement(std::string(1, static_cast<char>('a' + i)), i % 2 == 0 ? "even" : "odd");
    row.question.chip = i < 6 ? "a100" : "h100";
    row.question.framework = i % 3 == 0 ? "megatron" : "torchtitan";
    row.question.digest += row.question.chip + row.question.framework;
    row.step_time = Seconds(i % 4 + 1);  // a 1, b 2, c 3, d 4, e 1, ...
    row.time_ms = 1000 + i;
    if (i == 5) {
      row.outcome = Outcome::kOom;
      row.step_time = {};
    }
    if (i >= 10) row.source = MeasurementSource::kReplay;
    if (i == 7 || i == 8) row.study_id = "s";
    rows.push_back(row);
  }
  ASSERT_TRUE(Insert(rows).ok());
  struct Case {
    const char* name;
    MeasurementFilter filter;
    std::vector<std::string> newest;
    std::vector<std::string> fastest;
  };
  // Step times: a 1, b 2, c 3, d 4, e 1, f none, g 3, h 4, i 1, j 2, k 3, l 4
  const Case kCases[] = {
      {"all",
       {},
       {"l", "k", "j", "i", "h", "g", "f", "e", "d", "c", "b", "a"},
       {"a", "e", "i", "b", "j", "c", "g", "k", "d", "h", "l"}},
      {"chip", {.chip = "a100"}, {"f", "e", "d", "c", "b", "a"}, {"a", "e", "b", "c", "d"}},
      {"chip and framework",
       {.chip = "a100", .framework = "torchtitan"},
       {"f", "e", "c", "b"},
       {"e", "b", "c"}},
      {"framework", {.framework = "megatron"}, {"j", "g", "d", "a"}, {"a", "j", "g", "d"}},
      {"model", {.model_name = "odd"}, {"l", "j", "h", "f", "d", "b"}, {"b", "j", "d", "h", "l"}},
      {"job and chip",
       {.chip = "h100", .job_fingerprint = "job of odd"},
       {"l", "j", "h"},
       {"j", "h", "l"}},
      {"study", {.study_id = "s"}, {"i", "h"}, {"i", "h"}},
      {"study and job", {.job_fingerprint = "job of odd", .study_id = "s"}, {"h"}, {"h"}},
      {"sources",
       {.sources = {MeasurementSource::kReplay, MeasurementSource::kTrial}},
       {"l", "k"},
       {"k", "l"}},
      {"outcome", {.outcome = Outcome::kOom}, {"f"}, {}},
      {"up to", {.up_to_sequence = 3}, {"c", "b", "a"}, {"a", "b", "c"}},
      {"chip up to", {.chip = "h100", .up_to_sequence = 8}, {"h", "g"}, {"g", "h"}},
      {"study and model", {.model_name = "even", .study_id = "s"}, {"i"}, {"i"}},
      {"study and outcome", {.study_id = "s", .outcome = Outcome::kOom}, {}, {}},
      {"model, chip and framework",
       {.chip = "a100", .framework = "torchtitan", .model_name = "odd"},
       {"f", "b"},
       {"b"}},
      {"model and framework",
       {.framework = "megatron", .model_name = "even"},
       {"g", "a"},
       {"a", "g"}},
      {"job and another model", {.model_name = "even", .job_fingerprint = "job of odd"}, {}, {}},
      {"nothing", {.chip = "a100' OR true --"}, {}, {}},
  };
  for (const Case& tested : kCases) {
    for (const int size : {1, 2, 5, 100}) {
      EXPECT_EQ(Ids(tested.filter, MeasurementOrder::kNewest, size), tested.newest)
          << tested.name << " by " << size;
      EXPECT_EQ(Ids(tested.filter, MeasurementOrder::kFastest, size), tested.fastest)
          << tested.name << " by " << size;
    }
  }
}

// The order is by the time of measuring, regardless of the time of storing; equal times are by
// number.
TEST_P(MeasurementsTest, TheLatestAreByTime) {
  struct Row {
    const char* id;
    const char* model;
    std::int64_t time_ms;
    bool has_interval;
  };
  const Row kRows[] = {{"a", "even", 1700000000003, true}, {"b", "odd", 1700000000005, false},
                       {"c", "even", 1700000000001, true}, {"d", "odd", 1700000000003, true},
                       {"e", "odd", 1700000000003, false}, {"f", "even", 1700000000002, false}};
  std::vector<MeasurementRecord> rows;
  for (const Row& row : kRows) {
    MeasurementRecord measurement = MakeMeasurement(row.id, row.model);
    measurement.time_ms = row.time_ms;
    if (row.has_interval) measurement.expected = {.step_time = Seconds(2), .low = Seconds(1)};
    rows.push_back(measurement);
  }
  ASSERT_TRUE(Insert(rows).ok());
  const std::string chip = rows[0].question.chip;
  struct Case {
    const char* name;
    MeasurementFilter filter;
    std::vector<std::string> latest;
  };
  const Case kCases[] = {
      {"all", {}, {"b", "e", "d", "a", "f", "c"}},
      {"chip and framework",
       {.chip = chip, .framework = "megatron"},
       {"b", "e", "d", "a", "f", "c"}},
      {"another framework", {.chip = chip, .framework = "torchtitan"}, {}},
      {"model", {.chip = chip, .framework = "megatron", .model_name = "even"}, {"a", "f", "c"}},
      {"interval", {.chip = chip, .framework = "megatron", .has_interval = true}, {"d", "a", "c"}},
      {"up to", {.chip = chip, .framework = "megatron", .up_to_sequence = 3}, {"b", "a", "c"}},
      {"source", {.chip = chip, .sources = {MeasurementSource::kTrial}}, {}},
  };
  for (const Case& tested : kCases) {
    for (const int size : {1, 2, 100}) {
      EXPECT_EQ(Ids(tested.filter, MeasurementOrder::kLatest, size), tested.latest)
          << tested.name << " by " << size;
    }
  }
}

TEST_P(MeasurementsTest, TokensAreBoundToFilterAndOrder) {
  ASSERT_TRUE(Insert({MakeMeasurement("m"), MakeMeasurement("n")}).ok());
  const auto page = recorder_->ListMeasurements({}, MeasurementOrder::kNewest, 1, "");
  ASSERT_TRUE(page.ok()) << page.status();
  for (const auto& [filter, order] :
       {std::pair(MeasurementFilter{.chip = "x"}, MeasurementOrder::kNewest),
        std::pair(MeasurementFilter{.framework = "x"}, MeasurementOrder::kNewest),
        std::pair(MeasurementFilter{.has_interval = true}, MeasurementOrder::kNewest),
        std::pair(MeasurementFilter(), MeasurementOrder::kLatest),
        std::pair(MeasurementFilter(), MeasurementOrder::kFastest)}) {
    const auto refused = recorder_->ListMeasurements(filter, order, 1, page->next_page_token);
    EXPECT_EQ(Reason(refused.status()), "INVALID_PAGE_TOKEN");
  }
  // New rows neither repeat nor hide others.
  ASSERT_TRUE(Insert({MakeMeasurement("o")}).ok());
  const auto next =
      recorder_->ListMeasurements({}, MeasurementOrder::kNewest, 1, page->next_page_token);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->measurements.at(0).id, "m");
  EXPECT_EQ(next->next_page_token, "");
}

TEST_P(MeasurementsTest, ClustersAndChipsAreSeenOnce) {
  MeasurementRecord late = MakeMeasurement("late");
  late.time_ms = 9000;
  MeasurementRecord early = MakeMeasurement("early", "another model");
  early.time_ms = 1000;
  early.question.cluster_name = "renamed";
  MeasurementRecord grown = MakeMeasurement("grown", "third");
  grown.question.hardware_fingerprint = "hardware 2";
  grown.question.chip_fingerprint = "chip 2";
  grown.question.device_count = 128;
  ASSERT_TRUE(Insert({late, early, grown}).ok());
  const std::string clusters =
      "SELECT hardware_fingerprint || ' ' || name || ' ' || chip || ' ' || device_count || ' ' || "
      "first_seen_ms || ' ' || last_seen_ms FROM clusters ORDER BY hardware_fingerprint";
  EXPECT_THAT(store_.Sql(clusters),
              ElementsAre("hardware a100x64 nvidia-a100-sxm4-80gb 64 1000 9000",
                          "hardware 2 a100x64 nvidia-a100-sxm4-80gb 128 3000 3000"));
  const std::string chips =
      "SELECT id || ' ' || fingerprint || ' ' || first_seen_ms FROM chips ORDER BY fingerprint";
  EXPECT_THAT(store_.Sql(chips),
              ElementsAre("nvidia-a100-sxm4-80gb chip 1000", "nvidia-a100-sxm4-80gb chip 2 3000"));
}

TEST_P(MeasurementsTest, KeepsCalibrations) {
  CalibrationRecord first = {.id = "c1",
                             .chip = "a100",
                             .framework = "megatron",
                             .framework_version = "0.6",
                             .job_fingerprint = "job",
                             .last_sequence = 7,
                             .measurement_count = 3,
                             .time_ratio = 1.1,
                             .model_version = "9",
                             .create_time_ms = 1000,
                             .content = std::string("\0c", 2)};
  CalibrationRecord second = first;
  second.id = "c2";
  second.time_ratio = {};
  second.memory_ratio = 0.9;
  CalibrationRecord other = first;
  other.id = "c3";
  other.chip = "h100";
  other.create_time_ms = 500;
  for (const CalibrationRecord& record : {first, second, other}) {
    ASSERT_TRUE(recorder_->InsertCalibration(record).ok());
  }
  CalibrationRecord again = first;
  again.create_time_ms = 8000;
  EXPECT_TRUE(recorder_->InsertCalibration(again).ok());
  Reopen();
  EXPECT_EQ(*recorder_->GetCalibration("c1"), first);
  EXPECT_EQ(*recorder_->GetCalibration("c2"), second);
  EXPECT_EQ(Reason(recorder_->GetCalibration("x").status()), "UNKNOWN_CALIBRATION");
  const auto ids = [this](const std::optional<std::string>& chip) {
    std::vector<std::string> found;
    std::string token;
    do {
      const auto page = recorder_->ListCalibrations(chip, 1, token);
      EXPECT_TRUE(page.ok()) << page.status();
      for (const CalibrationRecord& record : page->calibrations) {
        EXPECT_EQ(record.content, "");
        found.push_back(record.id);
      }
      token = page->next_page_token;
    } while (!token.empty());
    return found;
  };
  EXPECT_THAT(ids({}), ElementsAre("c2", "c1", "c3"));
  EXPECT_THAT(ids("a100"), ElementsAre("c2", "c1"));
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->InsertCalibration({})));
}

TEST_P(MeasurementsTest, TheLastSequenceOfAChipCountsItsRunsAndAllRetractions) {
  MeasurementRecord other = MakeMeasurement("other", "gpt");
  other.question.chip = "another";
  ASSERT_TRUE(Insert({MakeMeasurement("a"), MakeMeasurement("b"), other}).ok());
  const auto last = [this](const std::string& chip, std::int64_t up_to) {
    return recorder_->LastSequenceOf(chip, "megatron", up_to).value();
  };
  EXPECT_EQ(last("nvidia-a100-sxm4-80gb", 9), 2);
  EXPECT_EQ(last("nvidia-a100-sxm4-80gb", 1), 1);
  EXPECT_EQ(last("another", 9), 3);
  EXPECT_EQ(last("another", 2), 0);
  EXPECT_EQ(last("", 9), 0);
  EXPECT_EQ(recorder_->LastSequenceOf("another", "deepspeed", 9).value(), 0);
  ASSERT_TRUE(recorder_->RetractMeasurement("a", {.reason = "wrong"}).ok());
  for (const std::string chip : {"nvidia-a100-sxm4-80gb", "another", ""}) {
    EXPECT_EQ(last(chip, 9), 4) << chip;
  }
  EXPECT_EQ(last("", 3), 0);
}

INSTANTIATE_TEST_SUITE_P(All, MeasurementsTest, testing::ValuesIn(DurablePlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
