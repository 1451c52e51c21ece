#pragma once

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {

// Shows people the estimate of one plan: its step time, its memory, where both go, and warnings.
std::string EstimateReport(const v1::Estimate& estimate, int columns);

// Shows people which plan is faster and by how much, the terms that differ with the largest
// difference first, the memory of both, and if their intervals overlap. Sentences are broken at
// `columns`.
std::string ComparisonReport(const v1::PlanComparison& comparison, int columns);

}  // namespace meshwright
