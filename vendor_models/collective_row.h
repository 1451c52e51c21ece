#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// Returns the word for a row of a chip file's `collectives`: `all_reduce`, ...
std::string_view CollectiveWordOf(CollectiveKind kind);

// Parses a row (vendor_models/README.md) except for its source. Errors go to `reader`.
CollectiveFit ParseCollective(ObjectReader& reader);

// Returns its name among the figures, `collective_all_reduce_8_ranks`, and its constants.
std::string CollectiveName(const CollectiveFit& fit);
std::string CollectiveText(const CollectiveFit& fit);

}  // namespace meshwright
