#pragma once

#include <vector>

#include "search_space/base/status.h"
#include "server/http/url.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Sets the fields of a request that a query names: "page_size=50&filter.state=running". Returns
// every mistake: a name that is no field (with the known ones), a field named twice, and a value
// that is not of the field's type. An entry of a map of texts is named with its key:
// "filter.labels.team=vision". Lists and other maps cannot be named.
std::vector<FieldViolation> FillFromQuery(const NamedValues& query,
                                          google::protobuf::Message& request);

}  // namespace meshwright
