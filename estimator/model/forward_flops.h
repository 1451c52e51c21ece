#pragma once

#include "estimator/problem/estimator_problem.h"

namespace meshwright {

// Returns the forward FLOPs of one token: GEMMs of the active parameters, output layer included,
// and causal attention. Model FLOPs of training are three times that (docs/glossary/figures.md,
// MFU).
double ForwardFlopsPerToken(const EstimatorProblem& problem);

}  // namespace meshwright
