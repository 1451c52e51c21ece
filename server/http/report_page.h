#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// Returns one page of HTML that holds the pages of the dashboard and these answers, each an address
// of the API with the JSON that it gave. It asks nothing of anybody, which its own policy forbids,
// too. FAILED_PRECONDITION if the program was built without the pages.
absl::StatusOr<std::string> ReportPage(
    const std::vector<std::pair<std::string, std::string>>& answers);

// Returns the addresses of a study that a report holds, in the order in which it holds them. The
// last one is that of its events, which are an array there.
std::vector<std::string> ReportAddresses(std::string_view study_id);

}  // namespace meshwright
