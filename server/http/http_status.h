#pragma once

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace meshwright {

// Returns the code of HTTP for a status: 400 for INVALID_ARGUMENT, 404 for NOT_FOUND, ...
int HttpStatusOf(absl::StatusCode code);

// Returns {"error":{"reason","message","fields"}}, as the command line prints errors under
// `--output json`. If nothing fits, {"infeasible"} stands beside it.
HttpResponse ErrorResponse(const absl::Status& status);

}  // namespace meshwright
