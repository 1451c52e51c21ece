#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// The launch flags or the configuration of a training framework for one resolved plan. What the
// framework cannot do is INVALID_ARGUMENT with reason NOT_EXPRESSIBLE that names every such field
// of the plan, the workload and the model at once; nothing is dropped or replaced. A framework
// without an exporter: NOT_FOUND with reason UNKNOWN_EXPORT_FRAMEWORK, listing those that have one.
absl::StatusOr<std::string> ExportPlan(std::string_view framework, const Problem& problem,
                                       const ParallelPlan& plan);

// Those that ExportPlan knows, in the order of its table.
std::vector<std::string> ExportFrameworks();

// Fills `exports` of every plan and of the baseline: for the workload's own framework when it has
// an exporter, and always for megatron-core. Where a framework cannot do a plan the entry is absent
// and the result gets one warning for each reason.
void AddExports(const Problem& problem, StudyResult& result);

}  // namespace meshwright
