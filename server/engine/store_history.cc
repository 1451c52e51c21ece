#include "server/engine/store_history.h"

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "server/engine/drift.h"
#include "server/engine/measured_rows.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

absl::Status AddAll(MeasuredRows& rows, const MeasurementFilter& filter,
                    HistoryGatherer& gatherer) {
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const MeasurementPage page,
                     rows.recorder().ListMeasurements(filter, MeasurementOrder::kNewest,
                                                      kMaxPageSize, page_token));
    for (const MeasurementRecord& measurement : page.measurements) {
      if (gatherer.IsFull()) return absl::OkStatus();
      ASSIGN_OR_RETURN(const ReadMeasurement read, ReadRow(rows, measurement));
      gatherer.Add(read);
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReadMeasurement> ReadRow(MeasuredRows& rows, const MeasurementRecord& measurement) {
  ASSIGN_OR_RETURN(MeasuredRow measured, rows.Read(measurement));
  ReadMeasurement read = {.sequence = measurement.sequence,
                          .id = measurement.id,
                          .job_fingerprint = measurement.question.job_fingerprint,
                          .chip_fingerprint = measurement.question.chip_fingerprint,
                          .refusal = std::move(measured.refusal)};
  if (measured.row.has_value()) {
    read.row = std::make_shared<const HistoryRow>(*std::move(measured.row));
  }
  return read;
}

MeasurementFilter HistoryFilterOf(const Problem& problem, std::int64_t up_to_sequence) {
  return {.chip = problem.cluster.pools.front().chip.id,
          .framework = problem.profile.name,
          .sources = {MeasurementSource::kTrial, MeasurementSource::kJobReport,
                      MeasurementSource::kImport},
          .up_to_sequence = up_to_sequence,
          .is_retracted = false,
          .retracted_up_to = up_to_sequence};
}

HistoryGatherer::HistoryGatherer(const ChipSpec& chip)
    : chip_(chip.id), chip_fingerprint_(ChipFingerprint(chip)) {
  history_.rows.reserve(kMaxStoreRows);
}

bool HistoryGatherer::IsFull() const {
  return std::ssize(history_.rows) == kMaxStoreRows || std::ssize(seen_) == kMaxStoreRowsRead;
}

void HistoryGatherer::Add(const ReadMeasurement& measurement) {
  if (IsFull() || !seen_.insert(measurement.sequence).second) return;
  if (measurement.row != nullptr) {
    history_.rows.push_back(measurement.row);
    other_figures_count_ += measurement.chip_fingerprint == chip_fingerprint_ ? 0 : 1;
  } else if (++left_out_count_ == 1) {
    first_left_out_ = measurement.id;
    why_ = measurement.refusal;
  }
}

StoreHistory HistoryGatherer::Take() {
  if (left_out_count_ > 0) {
    history_.warnings.push_back(
        fmt::format("{} of the store's measurements were left out, because they cannot be read "
                    "or are impossible; the first is {}: {}",
                    left_out_count_, first_left_out_, std::string(why_.message())));
  }
  if (other_figures_count_ > 0) {
    history_.warnings.push_back(
        fmt::format("{} of the store's measurements were stored under other figures of {} than "
                    "this program has: they are compared with today's figures and count like the "
                    "others",
                    other_figures_count_, chip_));
  }
  return std::move(history_);
}

absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence) {
  if (up_to_sequence == 0) return StoreHistory();
  MeasuredRows rows(recorder, knowledge, codec);
  HistoryGatherer gatherer(problem.cluster.pools.front().chip);
  MeasurementFilter filter = HistoryFilterOf(problem, up_to_sequence);
  filter.job_fingerprint = JobFingerprint(problem);
  RETURN_IF_ERROR(AddAll(rows, filter, gatherer));
  filter.job_fingerprint.reset();
  RETURN_IF_ERROR(AddAll(rows, filter, gatherer));
  StoreHistory history = gatherer.Take();
  ASSIGN_OR_RETURN(std::optional<std::string> drift,
                   DriftWarning(rows, *filter.chip, *filter.framework, up_to_sequence));
  if (drift.has_value()) history.warnings.push_back(*std::move(drift));
  return history;
}

}  // namespace meshwright
