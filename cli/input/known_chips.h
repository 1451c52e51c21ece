#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/problem.pb.h"

namespace meshwright {

// Fills in the devices of the nodes whose size the cluster leaves to the chip's usual node.
// `site_chips` is the folder of the site's own chip files; empty: none. A pool whose chip is not
// known here stays as it is.
void FillUsualNodes(std::string_view site_chips, v1::Cluster& cluster);

// Returns the id of a chip that a user names. A name that stands for several chips is an error for
// the field "chip"; a name that is not known here stays as it is, as a server may know it.
absl::StatusOr<std::string> ChipIdOf(std::string_view site_chips, const std::string& name);

}  // namespace meshwright
