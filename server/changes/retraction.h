#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"
#include "recorder/store_access.h"

namespace meshwright {

// Retracts a measurement as Recorder::RetractMeasurement, and answers with it as lists have it. A
// repeated request_id gets the first answer, as in study_changes.h. NOT_FOUND names the measurement
// as a resource.
absl::StatusOr<v1::RetractMeasurementResponse> RetractMeasurement(
    const StoreAccess& store, const v1::RetractMeasurementRequest& request, std::int64_t time_ms);

}  // namespace meshwright
