#include "server/engine/store_history.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <set>
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

MeasurementFilter FilterOf(const Problem& problem, std::int64_t up_to_sequence) {
  return {.chip = problem.cluster.pools.front().chip.id,
          .framework = problem.profile.name,
          .sources = {MeasurementSource::kTrial, MeasurementSource::kJobReport,
                      MeasurementSource::kImport},
          .up_to_sequence = up_to_sequence,
          .is_retracted = false,
          .retracted_up_to = up_to_sequence};
}

class Reader {
 public:
  Reader(MeasuredRows& rows, const ChipSpec& chip)
      : rows_(rows), chip_(chip.id), chip_fingerprint_(ChipFingerprint(chip)) {}

  absl::Status Add(const MeasurementFilter& filter) {
    std::string page_token;
    do {
      ASSIGN_OR_RETURN(const MeasurementPage page,
                       rows_.recorder().ListMeasurements(filter, MeasurementOrder::kNewest,
                                                         kMaxPageSize, page_token));
      for (const MeasurementRecord& measurement : page.measurements) {
        if (IsFull()) return absl::OkStatus();
        if (!seen_.insert(measurement.sequence).second) continue;
        RETURN_IF_ERROR(AddRow(measurement));
      }
      page_token = page.next_page_token;
    } while (!page_token.empty());
    return absl::OkStatus();
  }

  StoreHistory Take() {
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

 private:
  [[nodiscard]] bool IsFull() const {
    return std::ssize(history_.rows) == kMaxStoreRows || std::ssize(seen_) == kMaxStoreRowsRead;
  }

  absl::Status AddRow(const MeasurementRecord& measurement) {
    ASSIGN_OR_RETURN(MeasuredRow measured, rows_.Read(measurement));
    if (measured.row.has_value()) {
      history_.rows.push_back(*std::move(measured.row));
      const bool is_same = measurement.question.chip_fingerprint == chip_fingerprint_;
      other_figures_count_ += is_same ? 0 : 1;
    } else if (++left_out_count_ == 1) {
      first_left_out_ = measurement.id;
      why_ = std::move(measured.refusal);
    }
    return absl::OkStatus();
  }

  MeasuredRows& rows_;
  const std::string chip_;
  const std::string chip_fingerprint_;
  StoreHistory history_;
  int other_figures_count_ = 0;
  int left_out_count_ = 0;
  std::string first_left_out_;
  absl::Status why_;
  std::set<std::int64_t> seen_;
};

}  // namespace

absl::StatusOr<StoreHistory> ReadStoreHistory(const Recorder& recorder, const Problem& problem,
                                              const Knowledge& knowledge, const StudyCodec& codec,
                                              std::int64_t up_to_sequence) {
  if (up_to_sequence == 0) return StoreHistory();
  MeasuredRows rows(recorder, knowledge, codec);
  Reader reader(rows, problem.cluster.pools.front().chip);
  MeasurementFilter filter = FilterOf(problem, up_to_sequence);
  filter.job_fingerprint = JobFingerprint(problem);
  RETURN_IF_ERROR(reader.Add(filter));
  filter.job_fingerprint.reset();
  RETURN_IF_ERROR(reader.Add(filter));
  StoreHistory history = reader.Take();
  ASSIGN_OR_RETURN(std::optional<std::string> drift,
                   DriftWarning(rows, *filter.chip, *filter.framework, up_to_sequence));
  if (drift.has_value()) history.warnings.push_back(*std::move(drift));
  return history;
}

}  // namespace meshwright
