#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/http_message.h"
#include "server/http/read_face.h"

namespace meshwright {

// Answers a GET below /v1/ with the JSON of the same message that gRPC answers with (docs/http.md
// lists the addresses), or with an error. `face` must outlive the answer's events.
HttpAnswer AnswerRead(const ReadFace& face, const HttpRequest& request);

// Returns the addresses that AnswerRead knows: "/v1/studies/{study_id}", ...
std::vector<std::string> ReadAddresses();

}  // namespace meshwright
