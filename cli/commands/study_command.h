#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Run `study list` and `study show`; `history` uses them too. Both return the exit code.
int ListStudyPage(int page_size, const std::string& page_token, const GlobalFlags& flags);
int ShowStoredStudy(const std::string& id, const GlobalFlags& flags);

// Returns a study of the server, or of the local store if no server is named.
absl::StatusOr<v1::GetStudyResponse> GetStudy(const std::string& id, const GlobalFlags& flags);

}  // namespace meshwright
