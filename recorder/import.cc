#include "recorder/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "recorder/transfer_line.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// The rows of an import that are looked up or stored together.
struct ImportGroup {
  std::vector<CalibrationRecord> calibrations = {};
  std::vector<MeasurementRecord> measurements = {};  // with their questions' bytes
  std::vector<std::size_t> line_hashes = {};         // hashes of the measurements' lines
  std::size_t byte_count = 0;

  [[nodiscard]] bool IsFull() const {
    return std::ssize(measurements) >= kMaxGroupRows || byte_count >= kMaxGroupBytes;
  }
};

// Decodes and checks one line after another without using any store.
class LineReader {
 public:
  explicit LineReader(const ImportOptions& options) : options_(options) {}

  // Adds the line's row to the group, if it has one.
  absl::Status Take(const std::string& text, ImportGroup& group) {
    if (has_ended_) return Damaged("a line follows the end");
    auto line = DecodeLine(text);
    if (!line.ok()) return Damaged(std::string(line.status().message()));
    if ((tally_.count() == 0) != std::holds_alternative<TransferHeader>(*line)) {
      return Damaged(tally_.count() == 0 ? "the first line must be a header" : "a second header");
    }
    const std::size_t measured = group.measurements.size();
    RETURN_IF_ERROR(std::visit([&](auto& taken) { return TakeOne(taken, group); }, *line));
    if (group.measurements.size() > measured) {
      group.line_hashes.push_back(std::hash<std::string>()(text));
    }
    group.byte_count += text.size();
    if (!has_ended_) tally_.Add(text);
    return absl::OkStatus();
  }

  [[nodiscard]] absl::Status CheckEnd() const {
    return has_ended_ ? absl::OkStatus() : Damaged("the end is missing");
  }

 private:
  [[nodiscard]] absl::Status Damaged(std::string_view why) const {
    return WithReason(
        absl::DataLossError(fmt::format("import, line {}: {}", tally_.count() + 1, why)),
        "DAMAGED_EXPORT");
  }

  absl::Status TakeOne(const TransferEnd& end, ImportGroup& /*group*/) {
    has_ended_ = true;
    const TransferEnd expected = tally_.End();
    if (end == expected) return absl::OkStatus();
    return Damaged(fmt::format("{} lines with SHA-256 {}, but the last line names {} with {}",
                               expected.count, expected.sha256, end.count, end.sha256));
  }

  absl::Status TakeOne(const TransferHeader& header, ImportGroup& /*group*/) const {
    if (header.version == kTransferVersion) return absl::OkStatus();
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("import: format version = {}; this program reads {}",
                                      header.version, kTransferVersion)),
                      "NEWER_EXPORT");
  }

  absl::Status TakeOne(QuestionRecord& question, ImportGroup& /*group*/) {
    const std::string digest = question.digest;
    questions_.insert_or_assign(digest, std::move(question));
    return absl::OkStatus();
  }

  absl::Status TakeOne(CalibrationRecord& calibration, ImportGroup& group) const {
    if (calibration.id.empty()) return Damaged("calibration id = ''; must not be empty");
    group.calibrations.push_back(std::move(calibration));
    return absl::OkStatus();
  }

  absl::Status CheckTime(std::string_view id, std::string_view member, std::int64_t time_ms) const {
    if (time_ms <= options_.latest_time_ms.value_or(time_ms)) return absl::OkStatus();
    return Damaged(fmt::format("measurement '{}': {} = {}; limit {}, the time of the import", id,
                               member, time_ms, *options_.latest_time_ms));
  }

  absl::Status TakeOne(MeasurementRecord& measurement, ImportGroup& group) const {
    const auto question = questions_.find(measurement.question.digest);
    if (question == questions_.end()) {
      return Damaged(fmt::format("question_digest = '{}'; no earlier line has this question",
                                 measurement.question.digest));
    }
    measurement.question = question->second;
    RETURN_IF_ERROR(CheckTime(measurement.id, "time_ms", measurement.time_ms));
    if (measurement.retraction.has_value()) {
      RETURN_IF_ERROR(
          CheckTime(measurement.id, "retraction_time_ms", measurement.retraction->time_ms));
    }
    const absl::Status valid = Validate(measurement);
    if (!valid.ok()) return Damaged(std::string(valid.message()));
    group.measurements.push_back(std::move(measurement));
    return absl::OkStatus();
  }

  const ImportOptions& options_;
  LineTally tally_ = {};
  std::map<std::string, QuestionRecord> questions_ = {};
  bool has_ended_ = false;
};

using UseGroup = std::function<absl::Status(const ImportGroup&)>;

// Adds a line's row to the group, and passes the group on once it is full.
absl::Status TakeLine(const std::string& line, LineReader& reader, ImportGroup& group,
                      const UseGroup& use) {
  RETURN_IF_ERROR(reader.Take(line, group));
  return group.IsFull() ? use(std::exchange(group, {})) : absl::OkStatus();
}

// Reads all lines from the beginning and passes their rows on in groups.
absl::Status ForEachGroup(const LineSource& lines, const ImportOptions& options,
                          const UseGroup& use) {
  RETURN_IF_ERROR(lines.rewind());
  LineReader reader(options);
  ImportGroup group;
  for (auto line = lines.next();; line = lines.next()) {
    RETURN_IF_ERROR(line.status());
    if (!line->has_value()) break;
    RETURN_IF_ERROR(TakeLine(**line, reader, group, use));
  }
  RETURN_IF_ERROR(reader.CheckEnd());
  return use(group);
}

absl::Status Conflict(const MeasurementRecord& ours, const MeasurementRecord& theirs) {
  return WithReason(
      absl::AlreadyExistsError(fmt::format("measurement '{}' is stored with other content ({})",
                                           ours.id, fmt::join(Differences(ours, theirs), "; "))),
      "IMPORT_CONFLICT");
}

// Returns true if the import has a retraction of a measurement that is not retracted here.
bool IsNewlyRetracted(const std::optional<MeasurementRecord>& ours,
                      const MeasurementRecord& theirs) {
  return theirs.retraction.has_value() && !(ours.has_value() && ours->retraction.has_value());
}

// Counts what an import would do.
class Checker {
 public:
  Checker(const ImportOptions& options, const StoreAccess& store)
      : options_(options), store_(store) {}

  absl::Status Check(const ImportGroup& group) {
    std::vector<std::optional<MeasurementRecord>> known;
    RETURN_IF_ERROR(store_.read([&](const Recorder& recorder) -> absl::Status {
      ASSIGN_OR_RETURN(known, recorder.FindMeasurements(group.measurements));
      return absl::OkStatus();
    }));
    for (std::size_t i = 0; i < known.size(); ++i) {
      CheckOne(group.measurements[i], group.line_hashes[i], known[i]);
    }
    return absl::OkStatus();
  }

  // Reports a conflict at the end, when it is known that no line was damaged.
  [[nodiscard]] absl::StatusOr<ImportCounts> Finish() const {
    if (!conflict_.ok()) return conflict_;
    return counts_;
  }

 private:
  void CheckOne(const MeasurementRecord& theirs, std::size_t line_hash,
                const std::optional<MeasurementRecord>& ours) {
    const auto [earlier, is_first] = line_hashes_.try_emplace(theirs.id, line_hash);
    if (is_first && !ours.has_value()) {
      ++counts_.imported;
    } else if (is_first ? Differences(*ours, theirs).empty() : earlier->second == line_hash) {
      ++(is_first && IsNewlyRetracted(ours, theirs) ? counts_.imported : counts_.skipped);
    } else if (options_.policy == ConflictPolicy::kKeep) {
      ++counts_.kept;
    } else if (conflict_.ok()) {
      conflict_ = is_first ? Conflict(*ours, theirs) : Twice(theirs.id);
    }
  }

  static absl::Status Twice(const std::string& id) {
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "measurement '{}' is in the import twice with different content", id)),
                      "IMPORT_CONFLICT");
  }

  const ImportOptions& options_;
  const StoreAccess& store_;
  std::map<std::string, std::size_t> line_hashes_ = {};  // hash of the first line, by id
  ImportCounts counts_ = {};
  absl::Status conflict_ = {};
};

absl::Status WithMessage(const absl::Status& status, const std::string& message) {
  return WithReason(absl::Status(status.code(), message), Reason(status));
}

// Adds to errors of the lines that nothing was stored; errors of the source and the store stay
// unchanged.
absl::Status NothingImported(const absl::Status& status) {
  const std::string reason = Reason(status);
  if (reason != "DAMAGED_EXPORT" && reason != "IMPORT_CONFLICT") return status;
  return WithMessage(status,
                     fmt::format("{}; nothing was imported", std::string(status.message())));
}

absl::StatusOr<ImportCounts> CheckAll(const LineSource& lines, const ImportOptions& options,
                                      const StoreAccess& store) {
  Checker checker(options, store);
  RETURN_IF_ERROR(
      ForEachGroup(lines, options, [&](const ImportGroup& group) { return checker.Check(group); }));
  return checker.Finish();
}

absl::Status StoreAll(const LineSource& lines, const ImportOptions& options,
                      const StoreAccess& store, ImportCounts& counts) {
  return ForEachGroup(lines, options, [&](const ImportGroup& group) -> absl::Status {
    ImportCounts stored;
    RETURN_IF_ERROR(store.write([&](Recorder& recorder) -> absl::Status {
      ASSIGN_OR_RETURN(
          stored, recorder.InsertImported(group.calibrations, group.measurements, options.policy));
      return absl::OkStatus();
    }));
    counts.imported += stored.imported;
    counts.skipped += stored.skipped;
    counts.kept += stored.kept;
    return absl::OkStatus();
  });
}

// Stores what the import has about a measurement and the store does not. Returns true if there was
// something.
absl::StatusOr<bool> InsertMissing(Connection* connection, MeasurementWriter& writer,
                                   const std::optional<MeasurementRecord>& ours,
                                   const MeasurementRecord& theirs) {
  if (!ours.has_value()) RETURN_IF_ERROR(writer.Insert(theirs).status());
  if (!IsNewlyRetracted(ours, theirs)) return !ours.has_value();
  RETURN_IF_ERROR(InsertRetraction(connection, theirs.id, *theirs.retraction));
  return true;
}

// Stores the measurements and retractions that the store does not have, within the caller's
// transaction.
absl::StatusOr<ImportCounts> InsertNew(Connection* connection,
                                       std::span<const MeasurementRecord> measurements,
                                       ConflictPolicy policy) {
  ASSIGN_OR_RETURN(MeasurementFinder finder, MeasurementFinder::Prepare(connection));
  ASSIGN_OR_RETURN(MeasurementWriter writer, MeasurementWriter::Prepare(connection));
  ImportCounts counts;
  for (const MeasurementRecord& measurement : measurements) {
    ASSIGN_OR_RETURN(const auto ours, finder.Find(measurement.id));
    if (ours.has_value() && !Differences(*ours, measurement).empty()) {
      if (policy != ConflictPolicy::kKeep) return Conflict(*ours, measurement);
      ++counts.kept;
      continue;
    }
    ASSIGN_OR_RETURN(const bool is_new, InsertMissing(connection, writer, ours, measurement));
    ++(is_new ? counts.imported : counts.skipped);
  }
  return counts;
}

}  // namespace

absl::StatusOr<ImportCounts> Recorder::InsertImported(
    std::span<const CalibrationRecord> calibrations,
    std::span<const MeasurementRecord> measurements, ConflictPolicy policy) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  for (const CalibrationRecord& calibration : calibrations) {
    RETURN_IF_ERROR(InsertCalibration(calibration));
  }
  ASSIGN_OR_RETURN(const ImportCounts counts, InsertNew(connection_.get(), measurements, policy));
  RETURN_IF_ERROR(transaction.Commit());
  return counts;
}

absl::StatusOr<ImportCounts> ImportMeasurements(const LineSource& lines,
                                                const ImportOptions& options,
                                                const StoreAccess& store) {
  auto checked = CheckAll(lines, options, store);
  if (!checked.ok()) return NothingImported(checked.status());
  if (options.validate_only) return checked;
  ImportCounts counts;
  const absl::Status stored = StoreAll(lines, options, store, counts);
  if (stored.ok()) return counts;
  return WithMessage(
      stored, fmt::format("{}; {} of {} measurements were imported; repeat the import to add the "
                          "others",
                          std::string(stored.message()), counts.imported, checked->imported));
}

}  // namespace meshwright
