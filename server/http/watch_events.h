#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "server/http/http_message.h"
#include "server/http/read_face.h"

namespace meshwright {

// Returns what follows a study: each event has its revision as id and the JSON of
// WatchStudyResponse as data. After the last event of a study, an event "end" tells browsers not to
// come back. Errors: NOT_FOUND for an unknown study.
absl::StatusOr<OpenEvents> WatchEvents(const ReadFace& face, const v1::WatchStudyRequest& asked);

}  // namespace meshwright
