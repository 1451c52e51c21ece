#include "server/changes/retraction.h"

#include <string>

#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/changes/answer_once.h"
#include "server/convert/convert.h"
#include "server/convert/history_wire.h"
#include "server/convert/status_wire.h"

namespace meshwright {

absl::StatusOr<v1::RetractMeasurementResponse> RetractMeasurement(
    const StoreAccess& store, const v1::RetractMeasurementRequest& request, std::int64_t time_ms) {
  const std::string& id = request.measurement_id();
  ASSIGN_OR_RETURN(const CallKey key, CallKeyOf("RetractMeasurement", request));
  const auto answer = WriteTo(store, [&](Recorder& recorder) {
    return recorder.AnswerOnce(key, [&]() -> absl::StatusOr<std::string> {
      ASSIGN_OR_RETURN(
          const MeasurementRecord record,
          recorder.RetractMeasurement(id, {.time_ms = time_ms, .reason = request.reason()}));
      v1::RetractMeasurementResponse response;
      *response.mutable_measurement() = ToWire(record);
      return StableBytes(response);
    });
  });
  if (absl::IsNotFound(answer.status())) return WithResource(answer.status(), "measurement", id);
  return ParseAnswer<v1::RetractMeasurementResponse>(answer);
}

}  // namespace meshwright
