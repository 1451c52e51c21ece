#pragma once

#include "absl/status/status.h"
#include "server/http/http_message.h"

namespace meshwright {

// Refuses requests that another site's page could make a browser send. A Host that is not this
// machine means that a foreign name was made to point here; an Origin other than the Host means
// that the page is another's. PERMISSION_DENIED with reason FOREIGN_HOST or FOREIGN_ORIGIN.
absl::Status CheckOrigin(const HttpRequest& request);

// Returns UNIMPLEMENTED with reason READ_ONLY.
absl::Status ReadOnly(const HttpRequest& request);

}  // namespace meshwright
