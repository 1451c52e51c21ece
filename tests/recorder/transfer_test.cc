#include "recorder/transfer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "recorder/transfer_line.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/digest/sha256.h"
#include "search_space/spec/choices.h"
#include "tests/recorder/line_source.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using Lines = std::vector<std::string>;

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

// Appends an end that matches the lines before it, whatever they contain.
Lines WithEnd(Lines lines) {
  Sha256 digest;
  for (const std::string& line : lines) digest.Add(line + "\n");
  lines.push_back(EncodeLine(TransferEnd{static_cast<std::int64_t>(lines.size()), digest.Hex()}));
  return lines;
}

// Returns a record with every field set, whose doubles have no short decimal form.
MeasurementRecord Full() {
  MeasurementRecord full = MakeMeasurement("full", "llama-13b");
  full.source = MeasurementSource::kTrial;
  full.study_id = "s";
  full.step_time = Seconds(1.0 / 3);
  full.expected = {.step_time = Seconds(0.1 + 0.2),
                   .low = Seconds(1e-9),
                   .high = Seconds(1e9 + 0.1),
                   .peak_memory = Bytes{(std::int64_t{1} << 53) + 1},
                   .calibration_id = "c"};
  full.request_id = "r";
  full.request_hash = "h";
  full.job_name = "nachts \"früh\"";
  full.note = "note";
  return full;
}

// Every test runs in memory, in files and on PostgreSQL.
class TransferTest : public testing::TestWithParam<StorePlace> {
 protected:
  // Opens one more store, which is removed after the test.
  Recorder OpenNew() {
    stores_.push_back(std::make_unique<TestStore>(GetParam()));
    auto recorder = Recorder::Open({.path = stores_.back()->address()});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }

  Recorder Filled() {
    Recorder recorder = OpenNew();
    MeasurementRecord failed = MakeMeasurement("failed", "gpt-3");
    failed.outcome = Outcome::kOom;
    failed.step_time = {};
    failed.peak_memory = {};
    EXPECT_TRUE(recorder
                    .InsertCalibration({.id = "c",
                                        .chip = "a100",
                                        .last_sequence = 3,
                                        .time_ratio = 1.0 / 3,
                                        .content = std::string("\0\xff", 2)})
                    .ok());
    EXPECT_TRUE(
        recorder.InsertMeasurements(std::vector{Full(), failed, MakeMeasurement("again")}).ok());
    return recorder;
  }

  // Returns enough rows for many groups.
  Lines ManyLines(int count) {
    Recorder source = OpenNew();
    std::vector<MeasurementRecord> rows;
    for (int i = 0; i < count; ++i) rows.push_back(MakeMeasurement(fmt::format("m{:05}", i)));
    EXPECT_TRUE(source.InsertMeasurements(rows).ok());
    return Export(source);
  }

 private:
  std::vector<std::unique_ptr<TestStore>> stores_;
};

TEST_P(TransferTest, AnExportComesBackTheSame) {
  const Recorder source = Filled();
  const Lines lines = Export(source);
  // The lines are header, question, calibration, measurement, question, measurement, measurement,
  // end.
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0], R"({"kind":"header","format":"meshwright-history","version":1})");
  EXPECT_THAT(lines[2], HasSubstr(R"("kind":"calibration")"));
  EXPECT_THAT(lines[7], HasSubstr(R"("count":7)"));

  Recorder target = OpenNew();
  ASSERT_TRUE(target.InsertMeasurements(std::vector{MakeMeasurement("mine")}).ok());
  const auto counts = Import(target, lines);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->imported, 3);
  MeasurementRecord expected = Full();
  expected.sequence = 2;  // each store has its own sequence
  expected.request_id = {};
  expected.request_hash = "";
  EXPECT_EQ(*target.GetMeasurement("full"), expected);
  EXPECT_EQ(target.GetMeasurement("failed")->step_time, std::nullopt);
  EXPECT_EQ(*target.GetCalibration("c"), *source.GetCalibration("c"));
  EXPECT_EQ(*target.LastMeasurementSequence(), 4);

  // Repeating the import duplicates nothing.
  const auto again = Import(target, lines);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->imported, 0);
  EXPECT_EQ(again->skipped, 3);
  EXPECT_EQ(*target.LastMeasurementSequence(), 4);

  // Without the target's own rows, its export equals the source's, byte for byte.
  EXPECT_EQ(Export(target, {}).size(), 9U);
  Recorder fresh = OpenNew();
  ASSERT_TRUE(Import(fresh, lines).ok());
  EXPECT_EQ(Export(fresh), lines);
}

TEST_P(TransferTest, ExportsWhatTheFilterTakes) {
  const Lines lines = Export(Filled(), {.model_name = "gpt-3"});
  ASSERT_EQ(lines.size(), 4U);  // header, question, measurement and end
  EXPECT_THAT(lines[2], HasSubstr(R"("id":"failed")"));
  EXPECT_EQ(Export(OpenNew()).size(), 2U);
}

TEST_P(TransferTest, ManyPagesAreOneExport) {
  Recorder source = OpenNew();
  std::vector<MeasurementRecord> rows;
  for (int i = 0; i < 2500; ++i) rows.push_back(MakeMeasurement(fmt::format("m{}", i)));
  ASSERT_TRUE(source.InsertMeasurements(rows).ok());
  const Lines lines = Export(source);
  EXPECT_EQ(lines.size(), 2503U);
  EXPECT_THAT(lines[2], HasSubstr(R"("id":"m0")"));
  Recorder target = OpenNew();
  EXPECT_EQ(Import(target, lines)->imported, 2500);
}

TEST_P(TransferTest, AnyDamageImportsNothing) {
  const Lines whole = Export(Filled());
  Recorder target = OpenNew();
  const auto expect_refused = [&target](const Lines& lines, const std::string& what) {
    const auto counts = Import(target, lines);
    EXPECT_TRUE(absl::IsDataLoss(counts.status())) << what << counts.status();
    EXPECT_EQ(Reason(counts.status()), "DAMAGED_EXPORT") << what;
    EXPECT_EQ(*target.LastMeasurementSequence(), 0) << what;
    EXPECT_EQ(Reason(target.GetCalibration("c").status()), "UNKNOWN_CALIBRATION") << what;
  };
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Lines lines = whole;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    expect_refused(lines, fmt::format("without line {}", i + 1));
    lines = whole;
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(i), whole[i]);
    expect_refused(lines, fmt::format("line {} twice", i + 1));
    lines = whole;
    lines.resize(i);
    expect_refused(lines, fmt::format("cut off after {}", i));
  }
  // Changes every byte of every line, one at a time.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (std::size_t at = 0; at < whole[i].size(); ++at) {
      Lines lines = whole;
      lines[i][at] = static_cast<char>(lines[i][at] ^ 1);
      const auto counts = Import(target, lines);
      ASSERT_FALSE(counts.ok()) << lines[i];
      ASSERT_EQ(*target.LastMeasurementSequence(), 0);
    }
  }
  EXPECT_EQ(Import(target, whole)->imported, 3);
}

// Such a run would be the latest for ever.
TEST_P(TransferTest, ARunThatIsStillToComeIsRefused) {
  Recorder source = OpenNew();
  MeasurementRecord measurement = MakeMeasurement("late", "llama-13b");
  measurement.time_ms = 2000;
  ASSERT_TRUE(source.InsertMeasurements(std::vector{measurement}).ok());
  Recorder target = OpenNew();
  const auto refused = Import(target, Export(source), {.latest_time_ms = 1999});
  EXPECT_EQ(Reason(refused.status()), "DAMAGED_EXPORT");
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("measurement 'late': time_ms = 2000; limit 1999"));
  EXPECT_EQ(*target.LastMeasurementSequence(), 0);
  EXPECT_EQ(Import(target, Export(source), {.latest_time_ms = 2000})->imported, 1);
}

TEST_P(TransferTest, NamesTheLineAndEveryBadMember) {
  const Lines whole = Export(Filled());
  Recorder target = OpenNew();
  const auto message = [&target](const Lines& lines) {
    return std::string(Import(target, WithEnd(lines)).status().message());
  };
  EXPECT_THAT(message({whole[0], "{"}), HasSubstr("line 2: must be a JSON object"));
  EXPECT_THAT(message({whole[0], R"({"kind":"x"})"}), HasSubstr("line 2: kind = \"x\""));
  EXPECT_THAT(message({whole[1]}), HasSubstr("line 1: the first line must be a header"));
  EXPECT_THAT(message({whole[0], whole[3]}), HasSubstr("line 2: question_digest = 'digest of"));
  Lines lines(whole.begin(), whole.begin() + 4);
  const auto replace = [&lines](const std::string& from, const std::string& to) {
    const std::size_t at = lines[3].find(from);
    ASSERT_NE(at, std::string::npos) << from;
    lines[3].replace(at, from.size(), to);
  };
  replace(R"("outcome":"ok")", R"("outcome":"fine")");
  replace(R"("time_ms":3000,)", "");
  replace(R"("peak_memory_bytes":42949672960)", R"("peak_memory_bytes":"40 GiB")");
  EXPECT_THAT(message(lines),
              testing::AllOf(HasSubstr("line 4: outcome = \"fine\"; must be one of"),
                             HasSubstr("time_ms: must be present"),
                             HasSubstr("peak_memory_bytes = \"40 GiB\"; must be")));
  EXPECT_THAT(message({R"({"kind":"header","format":7,"version":1})"}),
              HasSubstr("line 1: format: must be 'meshwright-history'; nothing was imported"));
  lines = {R"({"kind":"header","format":"meshwright-history","version":2})"};
  const auto newer = Import(target, WithEnd(lines));
  EXPECT_EQ(Reason(newer.status()), "NEWER_EXPORT");
  EXPECT_THAT(std::string(newer.status().message()),
              HasSubstr("version = 2; this program reads 1"));
}

TEST_P(TransferTest, WhatNobodyCanMeanIsRefused) {
  const Lines whole = Export(Filled());
  const auto import = [&](const std::string& member, const std::string& value) {
    Lines lines(whole.begin(), whole.begin() + 4);
    const std::regex stated('"' + member + R"(":("[^"]*"|[^,}]*))");
    EXPECT_TRUE(std::regex_search(lines[3], stated)) << member;
    lines[3] = std::regex_replace(lines[3], stated, '"' + member + "\":" + value);
    Recorder target = OpenNew();
    return Reason(Import(target, WithEnd(lines)).status());
  };
  EXPECT_EQ(import("peak_memory_bytes", "1"), "OK");
  EXPECT_EQ(import("peak_memory_bytes", "18446744073709551615"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("peak_memory_bytes", "-1"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("device_seconds", "-1"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("step_time_seconds", "31536001"), "DAMAGED_EXPORT");  // a year
  EXPECT_EQ(import("step_time_seconds", "1e300"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("peak_memory_bytes", "1000000000000001"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("note", '"' + std::string(5000, 'n') + '"'), "DAMAGED_EXPORT");
  EXPECT_EQ(import("id", R"("\u001b[31m")"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("job_name", R"("a\u0000b")"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("plan_key", R"("a\u007f")"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("note", R"("a\u009b1m")"), "DAMAGED_EXPORT");
  EXPECT_EQ(import("note", R"("one\n\ttwo")"), "OK");
  // The nesting is deeper than any recursive parser can handle.
  constexpr std::size_t kDepth = 300'000;
  Recorder target = OpenNew();
  const auto deep = Import(target, WithEnd({whole[0], R"({"kind":)" + std::string(kDepth, '[') +
                                                          std::string(kDepth, ']') + "}"}));
  EXPECT_EQ(Reason(deep.status()), "DAMAGED_EXPORT");
  for (const char* const header :
       {R"({"kind":"header","format":7,"version":1})", R"({"kind":"header","version":1})"}) {
    EXPECT_EQ(Reason(Import(target, WithEnd({header})).status()), "DAMAGED_EXPORT") << header;
  }
  EXPECT_LT(deep.status().message().size(), 1000u);
}

TEST_P(TransferTest, AConflictIsNamedOrOursStays) {
  const Recorder source = Filled();
  Recorder target = OpenNew();
  MeasurementRecord ours = Full();
  ours.step_time = Seconds(2);
  ours.note = "ours";
  ours.expected.calibration_id = "";
  ASSERT_TRUE(target.InsertMeasurements(std::vector{ours}).ok());
  const auto conflict = Import(target, Export(source));
  EXPECT_TRUE(absl::IsAlreadyExists(conflict.status()));
  EXPECT_EQ(Reason(conflict.status()), "IMPORT_CONFLICT");
  EXPECT_EQ(std::string(conflict.status().message()),
            "measurement 'full' is stored with other content (calibration_id: \"\" stored, \"c\" "
            "in the import; note: \"ours\" stored, \"note\" in the import; step_time_seconds: 2.0 "
            "stored, 0.3333333333333333 in the import); nothing was imported");
  EXPECT_EQ(*target.LastMeasurementSequence(), 1);

  const auto kept = Import(target, Export(source), {.policy = ConflictPolicy::kKeep});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->imported, 2);
  EXPECT_EQ(kept->kept, 1);
  EXPECT_EQ(target.GetMeasurement("full")->note, "ours");

  // Damage is reported before a conflict, because a damaged line may not have its intended content.
  Lines damaged = Export(source);
  damaged.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(Import(target, damaged).status()));
}

TEST_P(TransferTest, ValidateOnlyStoresNothing) {
  Recorder target = OpenNew();
  const auto counts = Import(target, Export(Filled()), {.validate_only = true});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->imported, 3);
  EXPECT_EQ(*target.LastMeasurementSequence(), 0);
}

TEST_P(TransferTest, ErrorsOfSinkAndSourcePassThrough) {
  Recorder recorder = Filled();
  int written = 0;
  const absl::Status full = recorder.Export({}, [&written](std::string_view) {
    return ++written == 3 ? absl::ResourceExhaustedError("disk") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_EQ(written, 3);
  const LineSource source = {.next = []() -> absl::StatusOr<std::optional<std::string>> {
                               return absl::CancelledError("gone");
                             },
                             .rewind = [] { return absl::OkStatus(); }};
  const auto gone = ImportMeasurements(source, {}, DirectAccess(recorder));
  EXPECT_TRUE(absl::IsCancelled(gone.status()));
  EXPECT_EQ(gone.status().message(), "gone");
  EXPECT_TRUE(recorder.InsertMeasurements(std::vector{MakeMeasurement("n")}).ok());
}

// Other writers can write between two groups.
TEST_P(TransferTest, StoresSmallGroupsAndNothingBeforeAllIsChecked) {
  const Lines lines = ManyLines(1000);
  Recorder recorder = OpenNew();
  std::vector<std::string> uses;
  std::vector<std::int64_t> stored;
  const StoreAccess direct = DirectAccess(recorder);
  const StoreAccess watched = {.read =
                                   [&](const StoreRead& read) {
                                     uses.emplace_back("read");
                                     return direct.read(read);
                                   },
                               .write =
                                   [&](const StoreCall& call) {
                                     uses.emplace_back("write");
                                     absl::Status status = direct.write(call);
                                     stored.push_back(*recorder.LastMeasurementSequence());
                                     return status;
                                   }};
  const auto counts = ImportMeasurements(SourceOf(lines), {}, watched);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->imported, 1000);
  ASSERT_GE(stored.size(), 1000U / kMaxGroupRows);
  std::int64_t before = 0;
  for (const std::int64_t after : stored) {
    EXPECT_LE(after - before, kMaxGroupRows);
    before = after;
  }
  const auto first_write = std::ranges::find(uses, "write");
  EXPECT_EQ(std::count(first_write, uses.end(), "read"), 0);
}

TEST_P(TransferTest, ALongLineIsAGroupOfItsOwn) {
  Recorder source = OpenNew();
  std::vector<MeasurementRecord> rows;
  for (int i = 0; i < 4; ++i) {
    rows.push_back(MakeMeasurement(fmt::format("m{}", i)));
    rows.back().plan = std::string(kMaxGroupBytes, 'p');
  }
  ASSERT_TRUE(source.InsertMeasurements(rows).ok());
  const Lines lines = Export(source);
  Recorder recorder = OpenNew();
  int writes = 0;
  StoreAccess access = DirectAccess(recorder);
  access.write = [&](const StoreCall& call) {
    ++writes;
    return call(recorder);
  };
  ASSERT_TRUE(ImportMeasurements(SourceOf(lines), {}, access).ok());
  EXPECT_EQ(writes, 5);  // one for each line, and one for the end
  EXPECT_EQ(Export(recorder), lines);
}

// As after a full disk, the stored groups stay, and repeating the import completes it.
TEST_P(TransferTest, AnImportThatFailsHalfwayIsCompletedByTheSame) {
  const Lines lines = ManyLines(1000);
  Recorder recorder = OpenNew();
  StoreAccess access = DirectAccess(recorder);
  int writes = 0;
  access.write = [&](const StoreCall& call) -> absl::Status {
    if (++writes == 3) {
      return WithReason(absl::ResourceExhaustedError("the disk is full"), "STORE_FULL");
    }
    return call(recorder);
  };
  const auto failed = ImportMeasurements(SourceOf(lines), {}, access);
  EXPECT_EQ(Reason(failed.status()), "STORE_FULL");
  EXPECT_EQ(failed.status().message(),
            fmt::format("the disk is full; {} of 1000 measurements were imported; repeat the "
                        "import to add the others",
                        2 * kMaxGroupRows));
  EXPECT_EQ(*recorder.LastMeasurementSequence(), 2 * kMaxGroupRows);

  const auto completed = Import(recorder, lines);
  ASSERT_TRUE(completed.ok()) << completed.status();
  EXPECT_EQ(completed->imported, 1000 - 2 * kMaxGroupRows);
  EXPECT_EQ(completed->skipped, 2 * kMaxGroupRows);
  EXPECT_EQ(Export(recorder), lines);
}

TEST_P(TransferTest, AMeasurementThatComesTwiceIsSkippedOrAConflict) {
  const Lines whole = Export(Filled());
  Lines lines(whole.begin(), whole.end() - 1);
  lines.push_back(whole[3]);
  Recorder recorder = OpenNew();
  const auto same = Import(recorder, WithEnd(lines));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->imported, 3);
  EXPECT_EQ(same->skipped, 1);

  lines.back() =
      std::regex_replace(lines.back(), std::regex(R"("note":"note")"), R"("note":"another")");
  Recorder other = OpenNew();
  const auto conflict = Import(other, WithEnd(lines));
  EXPECT_EQ(Reason(conflict.status()), "IMPORT_CONFLICT");
  EXPECT_EQ(conflict.status().message(),
            "measurement 'full' is in the import twice with different content; nothing was "
            "imported");
  EXPECT_EQ(*other.LastMeasurementSequence(), 0);
  const auto kept = Import(other, WithEnd(lines), {.policy = ConflictPolicy::kKeep});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->kept, 1);
  EXPECT_EQ(other.GetMeasurement("full")->note, "note");
}

// A text from a terminal is exported even if it is not UTF-8.
TEST_P(TransferTest, TextThatIsNotUtf8IsExported) {
  Recorder source = OpenNew();
  MeasurementRecord odd = MakeMeasurement("m");
  odd.note = "caf\xe9";
  if (GetParam() == StorePlace::kPostgres) {  // whose texts are UTF-8
    EXPECT_TRUE(absl::IsInvalidArgument(source.InsertMeasurements(std::vector{odd}).status()));
    return;
  }
  ASSERT_TRUE(source.InsertMeasurements(std::vector{odd}).ok());
  Recorder target = OpenNew();
  ASSERT_TRUE(Import(target, Export(source)).ok());
  EXPECT_EQ(target.GetMeasurement("m")->note, "caf\xef\xbf\xbd");  // U+FFFD
}

INSTANTIATE_TEST_SUITE_P(All, TransferTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
