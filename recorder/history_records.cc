#include "recorder/history_records.h"

namespace meshwright {

template <>
std::span<const ChoiceWord<MeasurementSource>> Choices<MeasurementSource>() {
  static constexpr ChoiceWord<MeasurementSource> kTable[] = {
      {MeasurementSource::kTrial, "trial"},
      {MeasurementSource::kJobReport, "job_report"},
      {MeasurementSource::kImport, "import"},
      {MeasurementSource::kReplay, "replay"},
  };
  return kTable;
}

}  // namespace meshwright
