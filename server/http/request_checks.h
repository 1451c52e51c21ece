#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/auth/callers.h"
#include "server/http/http_message.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Refuses requests that another site's page could make a browser send. A Host that is not this
// machine means that a foreign name was made to point here; an Origin other than the Host means
// that the page is another's. PERMISSION_DENIED with reason FOREIGN_HOST or FOREIGN_ORIGIN.
absl::Status CheckOrigin(const HttpRequest& request);

// Returns who makes a request; nullopt for somebody who is not known, or without a list.
std::optional<KnownCaller> CallerOf(const KnownCallers* callers, const HttpRequest& request);

// Checks that the caller may read: UNAUTHENTICATED if there is a list without this one.
absl::Status AdmitReader(const KnownCallers* callers, const HttpRequest& request);

// Checks that the caller may make a change: UNAUTHENTICATED, or PERMISSION_DENIED with reason
// ROLE_TOO_LOW. `method` is the call's name in the API.
absl::Status AdmitChange(const KnownCallers* callers, const HttpRequest& http,
                         std::string_view method, const google::protobuf::Message& request);

// Returns UNIMPLEMENTED with reason READ_ONLY.
absl::Status ReadOnly(const HttpRequest& request);

}  // namespace meshwright
