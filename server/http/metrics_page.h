#pragma once

#include <functional>
#include <string>

#include "server/auth/callers.h"
#include "server/http/http_message.h"

namespace meshwright {

inline constexpr char kMetricsAddress[] = "/metrics";

// Returns the response with a text in the format of Prometheus.
HttpResponse MetricsResponse(std::string text);

// Returns what answers the requests of a listener that has the metrics only. The same callers may
// read them as may read anything else.
HttpHandler MetricsHandler(std::function<std::string()> metrics, const KnownCallers* callers);

}  // namespace meshwright
