#pragma once

#include <vector>

#include "estimator/terms/kernel.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Returns the ratio of measured to modelled time of a GEMM, from the chip's table for the
// precision, the pass, and grouped or single GEMMs; 1 if there is no such table. Between measured
// shapes it is a mean over neighbours, beyond them that of the edge: docs/cost_model/gemm.md.
double ResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision,
                     GemmPass pass, const MatmulShape& shape);

// Returns a lower bound of ResidualRatio over all shapes and passes.
double LeastResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision);

}  // namespace meshwright
