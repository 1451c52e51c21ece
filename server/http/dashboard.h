#pragma once

#include "server/http/http_message.h"
#include "server/http/read_face.h"

namespace meshwright {

// Returns what answers the requests of the dashboard: its pages, and below /v1/ the API that they
// read. Nothing changes unless the face has writes. `face` must outlive the server.
HttpHandler DashboardHandler(const ReadFace& face);

}  // namespace meshwright
