#pragma once

#include <string_view>

#include "meshwright/v1/problem.pb.h"

namespace meshwright {

// Fills in the devices of the nodes whose size the cluster leaves to the chip's usual node.
// `site_chips` is the folder of the site's own chip files; empty: none. A pool whose chip is not
// known here stays as it is.
void FillUsualNodes(std::string_view site_chips, v1::Cluster& cluster);

}  // namespace meshwright
