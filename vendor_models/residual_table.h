#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// Parses one element of `gemm_residuals` in a chip file (vendor_models/README.md describes it).
// Mistakes go to the reader, and the table then lacks those parts. The caller sets source,
// provenance and confidence.
GemmResidualTable ParseResidualTable(ObjectReader& reader);

// Returns the pass of its products: `forward`, ..., or `any`.
std::string_view ResidualPassWord(const GemmResidualTable& table);

// Returns its name among the figures of a chip: `gemm_residuals_fp8_any`.
std::string ResidualTableName(const GemmResidualTable& table);

}  // namespace meshwright
