// The Recorder's call that exports measurements.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/transfer.h"
#include "recorder/transfer_line.h"
#include "search_space/base/secrets.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

class Exporter {
 public:
  Exporter(const Recorder& recorder, const LineSink& sink) : recorder_(recorder), sink_(sink) {}

  absl::Status Write(const TransferLine& line) {
    const std::string text = EncodeLine(line);
    tally_.Add(text);
    return sink_(text);
  }

  // Writes what the measurement refers to before it, and only once.
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
    MeasurementRecord masked = measurement;
    MaskSecrets(masked.job_name);
    MaskSecrets(masked.note);
    return Write(masked);
  }

  absl::Status WriteEnd() { return sink_(EncodeLine(tally_.End())); }

 private:
  const Recorder& recorder_;
  const LineSink& sink_;
  LineTally tally_ = {};
  std::set<std::string> questions_ = {};
  std::set<std::string> calibrations_ = {};
};

}  // namespace

absl::Status Recorder::Export(const MeasurementFilter& filter, const LineSink& sink) const {
  // Measurements and retractions are only ever added, so a limit on their number makes the pages a
  // snapshot. A limit that the filter states is of measurements: their marks are exported as they
  // are now.
  MeasurementFilter until = filter;
  ASSIGN_OR_RETURN(const std::int64_t last, LastMeasurementSequence());
  until.up_to_sequence = filter.up_to_sequence.value_or(last);
  until.retracted_up_to = filter.retracted_up_to.value_or(last);
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

}  // namespace meshwright
