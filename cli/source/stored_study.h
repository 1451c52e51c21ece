#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Returns a study of the server, or of the local store if no server is named.
absl::StatusOr<v1::GetStudyResponse> GetStudy(const std::string& id, const GlobalFlags& flags);

}  // namespace meshwright
