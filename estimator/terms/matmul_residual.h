#pragma once

#include <vector>

#include "estimator/terms/kernel.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Measured over modelled time of a GEMM, from the chip's table for the precision, the pass and
// whether it is grouped; 1 where there is none. Between measured shapes a mean over neighbours,
// beyond them as at the edge: docs/cost_model.md "GEMM".
double ResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision,
                     GemmPass pass, const MatmulShape& shape);

// What ResidualRatio is not below for any shape and pass.
double LeastResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision);

}  // namespace meshwright
