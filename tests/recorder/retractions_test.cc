#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "tests/recorder/line_source.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Lines = std::vector<std::string>;

// Every test runs in memory, in files and on PostgreSQL.
class RetractionsTest : public testing::TestWithParam<StorePlace> {
 protected:
  // Opens one more store, which is removed after the test.
  Recorder OpenNew() {
    stores_.push_back(std::make_unique<TestStore>(GetParam()));
    auto recorder = Recorder::Open({.path = stores_.back()->address()});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }

  // Returns a store with the measurements "a", "b" and "c" under the numbers 1 to 3.
  Recorder WithThree() {
    Recorder recorder = OpenNew();
    EXPECT_TRUE(recorder
                    .InsertMeasurements(std::vector{
                        MakeMeasurement("a"), MakeMeasurement("b", "odd"), MakeMeasurement("c")})
                    .ok());
    return recorder;
  }

  // Returns the error of an import whose mark of "a" was changed in its text.
  std::string ChangedMark(const std::string& from, const std::string& to);

 private:
  std::vector<std::unique_ptr<TestStore>> stores_;
};

Retraction Why(const std::string& reason) { return {.time_ms = 7000, .reason = reason}; }

void Retract(Recorder& recorder, const std::string& id, const std::string& reason = "wrong unit") {
  const auto retracted = recorder.RetractMeasurement(id, Why(reason));
  ASSERT_TRUE(retracted.ok()) << retracted.status();
}

// Returns the ids of a list in pages of one, each with a star if it is marked.
std::vector<std::string> List(const Recorder& recorder, const MeasurementFilter& filter,
                              MeasurementOrder order = MeasurementOrder::kOldest) {
  std::vector<std::string> ids;
  std::string token;
  do {
    const auto page = recorder.ListMeasurements(filter, order, 1, token);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    for (const MeasurementRecord& row : page->measurements) {
      ids.push_back(row.id + (row.retraction.has_value() ? "*" : ""));
    }
    token = page->next_page_token;
  } while (!token.empty());
  return ids;
}

Lines Export(const Recorder& recorder, const MeasurementFilter& filter = {}) {
  Lines lines;
  const absl::Status status = recorder.Export(filter, [&lines](std::string_view line) {
    lines.emplace_back(line);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return lines;
}

absl::StatusOr<ImportCounts> Import(Recorder& recorder, const Lines& lines,
                                    const ImportOptions& options = {}) {
  return ImportMeasurements(SourceOf(lines), options, DirectAccess(recorder));
}

TEST_P(RetractionsTest, AMarkIsKeptUnderTheNextNumber) {
  const TestStore store(GetParam());
  if (!store.outlives_recorder()) return;
  const Retraction expected = {.sequence = 2, .time_ms = 7000, .reason = "ms for s"};
  {
    auto recorder = Recorder::Open({.path = store.address()});
    ASSERT_TRUE(recorder->InsertMeasurements(std::vector{MakeMeasurement("m")}).ok());
    const auto retracted = recorder->RetractMeasurement("m", Why("ms for s"));
    ASSERT_TRUE(retracted.ok()) << retracted.status();
    MeasurementRecord marked = MakeMeasurement("m");
    marked.sequence = 1;
    marked.retraction = expected;
    EXPECT_EQ(*retracted, marked);
    EXPECT_EQ(*recorder->LastMeasurementSequence(), 2);
    // The number is taken: the next measurement has the one after it.
    EXPECT_EQ(recorder->InsertMeasurements(std::vector{MakeMeasurement("n")})
                  ->front()
                  .measurement.sequence,
              3);
  }
  const auto reader = Recorder::Open({.path = store.address(), .read_only = true});
  EXPECT_EQ(reader->GetMeasurement("m")->retraction, expected);
  EXPECT_EQ(reader->GetMeasurement("n")->retraction, std::nullopt);
  EXPECT_EQ(*reader->LastMeasurementSequence(), 3);
  EXPECT_EQ(
      reader->ListMeasurements({}, MeasurementOrder::kOldest, 0, "")->measurements.at(0).retraction,
      expected);
}

TEST_P(RetractionsTest, TheSameOnceMoreChangesNothingAndAnotherReasonIsRefused) {
  Recorder recorder = WithThree();
  Retract(recorder, "b", "wrong unit");
  const auto again = recorder.RetractMeasurement("b", {.time_ms = 9000, .reason = "wrong unit"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *recorder.GetMeasurement("b"));
  EXPECT_EQ(again->retraction->time_ms, 7000);
  const auto other = recorder.RetractMeasurement("b", Why("wrong plan"));
  EXPECT_TRUE(absl::IsAlreadyExists(other.status()));
  EXPECT_EQ(Reason(other.status()), "MEASUREMENT_RETRACTED");
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("\"wrong unit\""));
  EXPECT_EQ(recorder.GetMeasurement("b")->retraction->reason, "wrong unit");
  EXPECT_EQ(*recorder.LastMeasurementSequence(), 4);
}

TEST_P(RetractionsTest, AnUnknownIdAndABadReasonAreRefused) {
  Recorder recorder = WithThree();
  const auto unknown = recorder.RetractMeasurement("x", Why("wrong"));
  EXPECT_TRUE(absl::IsNotFound(unknown.status()));
  EXPECT_EQ(Reason(unknown.status()), "UNKNOWN_MEASUREMENT");
  struct Case {
    std::string reason;
    const char* description;
  };
  const Case kCases[] = {
      {"", "\"\"; must say why, in 1 to 4000 bytes"},
      {"  ", "\" \"; must say why, in 1 to 4000 bytes"},
      {std::string(kMaxMeasurementText + 1, 'w'), "4001 bytes; must be at most 4000"},
      {"two\nlines", "control character"},
      {"caf\xe9", "UTF-8"},
  };
  for (const Case& tested : kCases) {
    const absl::Status refused = recorder.RetractMeasurement("a", Why(tested.reason)).status();
    ASSERT_EQ(FieldViolations(refused).size(), 1U) << refused;
    EXPECT_EQ(FieldViolations(refused)[0].field, "reason");
    EXPECT_THAT(FieldViolations(refused)[0].description, HasSubstr(tested.description));
  }
  EXPECT_EQ(*recorder.LastMeasurementSequence(), 3);
  Retract(recorder, "a", std::string(kMaxMeasurementText, 'w'));
}

TEST_P(RetractionsTest, ACallThatFailsLeavesNoMark) {
  Recorder recorder = WithThree();
  const StoreCall call = [](Recorder& open) -> absl::Status {
    RETURN_IF_ERROR(open.RetractMeasurement("a", Why("wrong")).status());
    return absl::AbortedError("after all");
  };
  EXPECT_TRUE(absl::IsAborted(recorder.RunTogether({&call, 1}).front()));
  EXPECT_THAT(List(recorder, {}), ElementsAre("a", "b", "c"));
  Retract(recorder, "a");
  // PostgreSQL does not take a number back.
  EXPECT_EQ(recorder.GetMeasurement("a")->retraction->sequence,
            GetParam() == StorePlace::kPostgres ? 5 : 4);
}

TEST_P(RetractionsTest, ListsTakeThemInOrOut) {
  Recorder recorder = WithThree();
  Retract(recorder, "b");  // 4
  Retract(recorder, "a");  // 5
  struct Case {
    const char* name;
    MeasurementFilter filter;
    std::vector<std::string> expected;
  };
  const Case kCases[] = {
      {"all", {}, {"a*", "b*", "c"}},
      {"counting", {.is_retracted = false}, {"c"}},
      {"retracted", {.is_retracted = true}, {"a*", "b*"}},
      {"retracted of a model", {.model_name = "odd", .is_retracted = true}, {"b*"}},
      {"numbers of measurements", {.up_to_sequence = 2}, {"a*", "b*"}},
      {"as of 3", {.up_to_sequence = 3, .retracted_up_to = 3}, {"a", "b", "c"}},
      {"as of 4", {.retracted_up_to = 4}, {"a", "b*", "c"}},
      {"counting as of 3", {.is_retracted = false, .retracted_up_to = 3}, {"a", "b", "c"}},
      {"counting as of 4", {.is_retracted = false, .retracted_up_to = 4}, {"a", "c"}},
      {"counting as of 5", {.is_retracted = false, .retracted_up_to = 5}, {"c"}},
      {"retracted as of 3", {.is_retracted = true, .retracted_up_to = 3}, {}},
      {"retracted as of 4", {.is_retracted = true, .retracted_up_to = 4}, {"b*"}},
  };
  for (const Case& tested : kCases) {
    EXPECT_EQ(List(recorder, tested.filter), tested.expected) << tested.name;
    // The step times and times of these rows are equal, so these orders are by number.
    EXPECT_EQ(List(recorder, tested.filter, MeasurementOrder::kFastest), tested.expected)
        << tested.name;
    std::vector<std::string> newest = tested.expected;
    std::ranges::reverse(newest);
    EXPECT_EQ(List(recorder, tested.filter, MeasurementOrder::kNewest), newest) << tested.name;
    EXPECT_EQ(List(recorder, tested.filter, MeasurementOrder::kLatest), newest) << tested.name;
  }
}

TEST_P(RetractionsTest, TokensAreBoundToTheMarksOfTheirList) {
  Recorder recorder = WithThree();
  Retract(recorder, "b");
  Retract(recorder, "a");
  const auto page = recorder.ListMeasurements({}, MeasurementOrder::kNewest, 1, "");
  ASSERT_TRUE(page.ok()) << page.status();
  for (const MeasurementFilter& filter :
       {MeasurementFilter{.is_retracted = true}, MeasurementFilter{.is_retracted = false},
        MeasurementFilter{.retracted_up_to = 4}}) {
    EXPECT_EQ(
        Reason(
            recorder.ListMeasurements(filter, MeasurementOrder::kNewest, 1, page->next_page_token)
                .status()),
        "INVALID_PAGE_TOKEN");
  }
}

TEST_P(RetractionsTest, AReportIsFoundByItsRequest) {
  Recorder recorder = OpenNew();
  MeasurementRecord asked = MakeMeasurement("m");
  asked.request_id = "r";
  ASSERT_TRUE(recorder.InsertMeasurements(std::vector{asked, MakeMeasurement("n")}).ok());
  EXPECT_EQ(*recorder.FindMeasurementOfRequest("r").value(), *recorder.GetMeasurement("m"));
  EXPECT_EQ(recorder.FindMeasurementOfRequest("s").value(), std::nullopt);
}

TEST_P(RetractionsTest, AnExportCarriesThem) {
  Recorder source = WithThree();
  Retract(source, "b");
  const Lines lines = Export(source);
  Recorder target = OpenNew();
  const auto counts = Import(target, lines);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->imported, 3);
  EXPECT_THAT(List(target, {}), ElementsAre("a", "b*", "c"));
  // The number is of this store: "b" is 2 and its mark follows.
  EXPECT_EQ(target.GetMeasurement("b")->retraction,
            (Retraction{.sequence = 3, .time_ms = 7000, .reason = "wrong unit"}));
  EXPECT_EQ(target.GetMeasurement("c")->sequence, 4);
  EXPECT_EQ(Export(target), lines);
  EXPECT_EQ(Import(target, lines)->skipped, 3);
  EXPECT_EQ(Export(target), lines);
  // A limit of the numbers is one of measurements; they are exported with the marks of today.
  EXPECT_THAT(Export(source, {.up_to_sequence = 2})[4], HasSubstr("\"retraction_reason\""));
  EXPECT_EQ(Export(source, {.is_retracted = false}).size(), 5U);  // without "b" and its question
}

TEST_P(RetractionsTest, AnImportAddsAMarkAndTakesNoneAway) {
  Recorder source = WithThree();
  const Lines before = Export(source);
  Retract(source, "b");
  const Lines after = Export(source);
  Recorder target = WithThree();
  EXPECT_EQ(Import(target, after, {.validate_only = true})->imported, 1);
  EXPECT_THAT(List(target, {}), ElementsAre("a", "b", "c"));
  const auto marked = Import(target, after);
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_EQ(marked->imported, 1);
  EXPECT_EQ(marked->skipped, 2);
  EXPECT_EQ(target.GetMeasurement("b")->retraction,
            (Retraction{.sequence = 4, .time_ms = 7000, .reason = "wrong unit"}));
  for (const ConflictPolicy policy : {ConflictPolicy::kFail, ConflictPolicy::kKeep}) {
    const auto unmarked = Import(target, before, {.policy = policy});
    ASSERT_TRUE(unmarked.ok()) << unmarked.status();
    EXPECT_EQ(unmarked->skipped, 3);
  }
  EXPECT_THAT(List(target, {}), ElementsAre("a", "b*", "c"));
  // A mark that is here with another reason stays.
  Recorder other = WithThree();
  Retract(other, "b", "wrong plan");
  EXPECT_EQ(Import(other, after)->skipped, 3);
  EXPECT_EQ(other.GetMeasurement("b")->retraction->reason, "wrong plan");
}

TEST_P(RetractionsTest, AMeasurementThatIsKeptGetsNoMarkOfAnother) {
  Recorder source = WithThree();
  Retract(source, "a");
  Recorder target = OpenNew();
  MeasurementRecord ours = MakeMeasurement("a");
  ours.step_time = Seconds(2);
  ASSERT_TRUE(target.InsertMeasurements(std::vector{ours}).ok());
  const auto conflict = Import(target, Export(source));
  EXPECT_EQ(Reason(conflict.status()), "IMPORT_CONFLICT");
  EXPECT_EQ(std::string(conflict.status().message()).find("retraction"), std::string::npos);
  const auto kept = Import(target, Export(source), {.policy = ConflictPolicy::kKeep});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->kept, 1);
  EXPECT_EQ(target.GetMeasurement("a")->retraction, std::nullopt);
}

std::string RetractionsTest::ChangedMark(const std::string& from, const std::string& to) {
  Recorder source = WithThree();
  Retract(source, "a");
  Lines lines = Export(source);
  EXPECT_NE(lines[2].find(from), std::string::npos) << from;
  lines[2].replace(lines[2].find(from), from.size(), to);
  Recorder target = OpenNew();
  const auto refused = Import(target, lines, {.latest_time_ms = 8000});
  EXPECT_EQ(Reason(refused.status()), "DAMAGED_EXPORT");
  EXPECT_THAT(List(target, {}), IsEmpty());
  return std::string(refused.status().message());
}

TEST_P(RetractionsTest, ADamagedMarkImportsNothing) {
  EXPECT_THAT(ChangedMark(R"("retraction_reason":"wrong unit")", R"("x":1)"),
              HasSubstr("line 3: retraction_reason: must be present"));
  EXPECT_THAT(ChangedMark(R"("retraction_time_ms":7000)", R"("x":1)"),
              HasSubstr("line 3: retraction_time_ms: must be present"));
  EXPECT_THAT(ChangedMark("wrong unit", ""), HasSubstr("must say why"));
  EXPECT_THAT(ChangedMark("wrong unit", R"(a\nb)"), HasSubstr("line 3: retraction_reason = "));
  EXPECT_THAT(ChangedMark("7000", "8001"),
              HasSubstr("measurement 'a': retraction_time_ms = 8001; limit 8000"));
}

INSTANTIATE_TEST_SUITE_P(All, RetractionsTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
