#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// Of a row of a chip file's `collectives`: `all_reduce`, ...
std::string_view CollectiveWordOf(CollectiveKind kind);

// A row (vendor_models/README.md), but for where it comes from. Errors go to `reader`.
CollectiveFit ParseCollective(ObjectReader& reader);

// How it is listed among the figures: `collective_all_reduce_8_ranks`, and its constants.
std::string CollectiveName(const CollectiveFit& fit);
std::string CollectiveText(const CollectiveFit& fit);

}  // namespace meshwright
