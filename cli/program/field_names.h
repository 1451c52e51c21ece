#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/base/status.h"

namespace meshwright {

// How the command line states a field of a request: as the value of a flag, or in a file that the
// flag names.
struct FieldName {
  std::string field = {};  // path on the wire: "cluster.pools[0].chip"; empty: all
  std::string flag = {};   // "--chip"
  std::string file = {};   // what the flag names, if the field is stated there; empty: it is not
};
using FieldNames = std::vector<FieldName>;

// Returns an error about fields as people read it: its message says `--nodes = 0; must be >= 1` or
// `cluster.json: pools[0].chip = ...`. The path of each field stays what programs match on. Fields
// without a row keep their path, and so do errors that are not about fields.
absl::Status NamedAsStated(const absl::Status& status, const FieldNames& names);

template <typename Response>
absl::StatusOr<Response> NamedAsStated(absl::StatusOr<Response> response, const FieldNames& names) {
  if (!response.ok()) return NamedAsStated(response.status(), names);
  return response;
}

// Returns a line for each wrong field of an error: "field = description", with the names that
// NamedAsStated gave.
std::vector<std::string> MistakeLines(const absl::Status& status);

}  // namespace meshwright
