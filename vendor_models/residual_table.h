#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/chip.h"
#include "vendor_models/object_reader.h"

namespace meshwright {

// One element of `gemm_residuals` in a chip file (vendor_models/README.md describes it). What is
// wrong is noted in the reader; the table then lacks it. Source, provenance and confidence are left
// to the caller.
GemmResidualTable ParseResidualTable(ObjectReader& reader);

// The pass of its products: `forward`, ..., or `any`.
std::string_view ResidualPassWord(const GemmResidualTable& table);

// `gemm_residuals_fp8_any`: its name among the figures of a chip.
std::string ResidualTableName(const GemmResidualTable& table);

}  // namespace meshwright
