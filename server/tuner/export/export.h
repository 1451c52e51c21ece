#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the launch flags or the configuration of a training framework for one resolved plan.
// Returns INVALID_ARGUMENT with reason NOT_EXPRESSIBLE for fields of the plan, the workload and the
// model that the framework cannot express, naming all of them at once; nothing is dropped or
// replaced. Returns NOT_FOUND with reason UNKNOWN_EXPORT_FRAMEWORK for a framework without an
// exporter, listing those that have one.
absl::StatusOr<std::string> ExportPlan(std::string_view framework, const Problem& problem,
                                       const ParallelPlan& plan);

// Returns the frameworks that ExportPlan knows, in the order of its table.
std::vector<std::string> ExportFrameworks();

// Fills `exports` of every plan and of the baseline: for the workload's own framework if it has an
// exporter, and always for megatron-core. If a framework cannot express a plan, the entry is absent
// and the result gets one warning for each reason.
void AddExports(const Problem& problem, StudyResult& result);

}  // namespace meshwright
