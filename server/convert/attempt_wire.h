#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/recorder.h"
#include "server/engine/store_access.h"

namespace meshwright {

// What TuningService.ListAttempts answers from a store. INVALID_ARGUMENT: a trial below 1.
absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const Recorder& store,
                                                      const v1::ListAttemptsRequest& request);

}  // namespace meshwright
