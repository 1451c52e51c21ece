// The Recorder's calls that take measurements from one store to another.
#include "recorder/transfer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql.h"
#include "recorder/transfer_line.h"
#include "search_space/base/status.h"
#include "search_space/digest/sha256.h"

namespace meshwright {
namespace {

// What both ends keep of the lines that went by.
struct Tally {
  std::int64_t count = 0;
  Sha256 digest = {};

  void Add(std::string_view line) {
    ++count;
    digest.Add(line);
    digest.Add("\n");
  }
  [[nodiscard]] TransferEnd End() const { return {.count = count, .sha256 = digest.Hex()}; }
};

class Exporter {
 public:
  Exporter(const Recorder& recorder, const LineSink& sink) : recorder_(recorder), sink_(sink) {}

  absl::Status Write(const TransferLine& line) {
    const std::string text = EncodeLine(line);
    tally_.Add(text);
    return sink_(text);
  }

  // What the measurement refers to comes before it, once.
  absl::Status WriteWithReferences(const MeasurementRecord& measurement) {
    if (questions_.insert(measurement.question.digest).second) {
      ASSIGN_OR_RETURN(const QuestionRecord question,
                       recorder_.GetQuestion(measurement.question.digest));
      RETURN_IF_ERROR(Write(question));
    }
    const std::string& calibration_id = measurement.expected.calibration_id;
    if (!calibration_id.empty() && calibrations_.insert(calibration_id).second) {
      const auto calibration = recorder_.GetCalibration(calibration_id);
      if (calibration.ok()) {
        RETURN_IF_ERROR(Write(*calibration));
      } else if (!absl::IsNotFound(calibration.status())) {
        return calibration.status();
      }
    }
    return Write(measurement);
  }

  absl::Status WriteEnd() { return sink_(EncodeLine(tally_.End())); }

 private:
  const Recorder& recorder_;
  const LineSink& sink_;
  Tally tally_ = {};
  std::set<std::string> questions_ = {};
  std::set<std::string> calibrations_ = {};
};

// Takes in line after line; the caller holds the transaction. A conflict is told at the end, when
// it is known that no line was damaged.
class Importer {
 public:
  Importer(sqlite3* connection, Recorder& recorder, const ImportOptions& options)
      : connection_(connection), recorder_(recorder), options_(options) {}

  absl::Status Take(const std::string& text) {
    if (has_ended_) return Damaged("a line follows the end");
    auto line = DecodeLine(text);
    if (!line.ok()) return Damaged(std::string(line.status().message()));
    if ((tally_.count == 0) != std::holds_alternative<TransferHeader>(*line)) {
      return Damaged(tally_.count == 0 ? "the first line must be a header" : "a second header");
    }
    RETURN_IF_ERROR(std::visit([this](auto& taken) { return TakeOne(taken); }, *line));
    if (!has_ended_) tally_.Add(text);
    return absl::OkStatus();
  }

  absl::StatusOr<ImportCounts> Finish() const {
    if (!has_ended_) return Damaged("the end is missing");
    if (!conflict_.ok()) return conflict_;
    return counts_;
  }

 private:
  absl::Status Damaged(std::string_view why) const {
    return WithReason(absl::DataLossError(fmt::format("import, line {}: {}; nothing was imported",
                                                      tally_.count + 1, why)),
                      "DAMAGED_EXPORT");
  }

  absl::Status TakeOne(const TransferEnd& end) {
    has_ended_ = true;
    const TransferEnd expected = tally_.End();
    if (end == expected) return absl::OkStatus();
    return Damaged(fmt::format("{} lines of SHA-256 {} came; the end names {} of {}",
                               expected.count, expected.sha256, end.count, end.sha256));
  }

  absl::Status TakeOne(const TransferHeader& header) const {
    if (header.version == kTransferVersion) return absl::OkStatus();
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("import: format version = {}; this program reads {}",
                                      header.version, kTransferVersion)),
                      "NEWER_EXPORT");
  }
  absl::Status TakeOne(QuestionRecord& question) {
    const std::string digest = question.digest;
    questions_.insert_or_assign(digest, std::move(question));
    return absl::OkStatus();
  }
  absl::Status TakeOne(const CalibrationRecord& calibration) {
    return recorder_.InsertCalibration(calibration);
  }
  absl::Status TakeOne(MeasurementRecord& measurement) {
    const auto question = questions_.find(measurement.question.digest);
    if (question == questions_.end()) {
      return Damaged(fmt::format("question_digest = '{}'; no such question came before",
                                 measurement.question.digest));
    }
    measurement.question = question->second;
    if (measurement.time_ms > options_.latest_time_ms.value_or(measurement.time_ms)) {
      return Damaged(fmt::format("measurement '{}': time_ms = {}; limit {}, the time of the import",
                                 measurement.id, measurement.time_ms, *options_.latest_time_ms));
    }
    const auto ours = ReadMeasurement(connection_, measurement.id);
    if (ours.ok()) return TakeKnown(*ours, measurement);
    if (!absl::IsNotFound(ours.status())) return ours.status();
    const auto sequence = InsertMeasurement(connection_, measurement);
    if (absl::IsInvalidArgument(sequence.status())) {
      return Damaged(std::string(sequence.status().message()));
    }
    if (!sequence.ok()) return sequence.status();
    ++counts_.imported;
    return absl::OkStatus();
  }
  absl::Status TakeKnown(const MeasurementRecord& ours, const MeasurementRecord& theirs) {
    const std::vector<std::string> differences = Differences(ours, theirs);
    if (differences.empty()) {
      ++counts_.skipped;
    } else if (options_.policy == ConflictPolicy::kKeep) {
      ++counts_.kept;
    } else if (conflict_.ok()) {
      conflict_ =
          WithReason(absl::AlreadyExistsError(fmt::format(
                         "measurement '{}' is here with other content ({}); nothing was imported",
                         ours.id, fmt::join(differences, "; "))),
                     "IMPORT_CONFLICT");
    }
    return absl::OkStatus();
  }

  sqlite3* connection_;
  Recorder& recorder_;
  const ImportOptions& options_;
  Tally tally_ = {};
  std::map<std::string, QuestionRecord> questions_ = {};
  ImportCounts counts_ = {};
  absl::Status conflict_ = {};
  bool has_ended_ = false;
};

}  // namespace

absl::Status Recorder::Export(const MeasurementFilter& filter, const LineSink& sink) const {
  // Measurements are only ever added, so a last number makes the pages those of one moment.
  MeasurementFilter until = filter;
  if (!until.up_to_sequence.has_value()) {
    ASSIGN_OR_RETURN(until.up_to_sequence, LastMeasurementSequence());
  }
  Exporter exporter(*this, sink);
  RETURN_IF_ERROR(exporter.Write(TransferHeader{.version = kTransferVersion}));
  std::string token;
  do {
    ASSIGN_OR_RETURN(const MeasurementPage page,
                     ListMeasurements(until, MeasurementOrder::kOldest, kMaxPageSize, token));
    for (const MeasurementRecord& measurement : page.measurements) {
      RETURN_IF_ERROR(exporter.WriteWithReferences(measurement));
    }
    token = page.next_page_token;
  } while (!token.empty());
  return exporter.WriteEnd();
}

absl::StatusOr<ImportCounts> Recorder::Import(const LineSource& source,
                                              const ImportOptions& options) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  Importer importer(connection_.get(), *this, options);
  while (true) {
    ASSIGN_OR_RETURN(const auto line, source());
    if (!line.has_value()) break;
    RETURN_IF_ERROR(importer.Take(*line));
  }
  ASSIGN_OR_RETURN(const ImportCounts counts, importer.Finish());
  if (options.validate_only) return counts;
  RETURN_IF_ERROR(transaction.Commit());
  return counts;
}

}  // namespace meshwright
