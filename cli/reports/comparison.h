#pragma once

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {

// Both estimates and what each cause and each kind of memory differs by.
v1::PlanComparison CompareEstimates(const v1::Estimate& first, const v1::Estimate& second);

// For people: which is faster and by how much, the terms that differ with the largest difference
// first, the memory of both, and whether their intervals overlap.
std::string ComparisonReport(const v1::PlanComparison& comparison);

}  // namespace meshwright
