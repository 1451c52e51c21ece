#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http/http_message.h"
#include "server/http/read_face.h"

namespace meshwright {

// Answers a request that changes studies: creates, cancels or edits one. Returns nullopt if the
// method and the address are not those of a change. UNIMPLEMENTED with reason READ_ONLY if the face
// has no writes. The field If-Match is the study's etag; a stale one is answered with 412.
std::optional<HttpResponse> AnswerWrite(const ReadFace& face, const HttpRequest& request);

// Returns the methods and addresses that AnswerWrite knows: "PATCH /v1/studies/{study_id}", ...
std::vector<std::string> WriteAddresses();

}  // namespace meshwright
