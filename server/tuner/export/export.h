#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the configuration with which a training framework runs one resolved plan. Returns
// INVALID_ARGUMENT with reason NOT_EXPRESSIBLE for fields of the plan, the workload and the model
// that the framework cannot express or refuses to run, naming all of them at once; nothing is
// dropped or replaced. Returns NOT_FOUND with reason UNKNOWN_EXPORT_FRAMEWORK for a framework
// without an exporter, listing those that have one.
absl::StatusOr<LaunchConfig> ExportPlan(std::string_view framework, const Problem& problem,
                                        const ParallelPlan& plan);

// Returns the fields of the model, the workload and the cluster for which the workload's framework,
// as its exporter knows it, runs no plan at all. Empty if the framework has no exporter.
std::vector<FieldViolation> UnrunnableFields(const Problem& problem);

// Returns the frameworks that ExportPlan knows, in the order of its table.
std::vector<std::string> ExportFrameworks();

// Returns the profile of a framework whose plans an exporter takes: megatron-core for nemo. Empty
// if there is no such exporter, or if the name is empty.
std::string_view ProfileOfExport(std::string_view framework);

// Returns those whose exports are flags and nothing else, which the command of a job can contain.
std::vector<std::string> FlagFrameworks();

// Fills `exports` of a plan for the workload's own framework. If that cannot express the plan, the
// entry is absent and `warnings` gets the reason, unless it has it.
void AddExport(const Problem& problem, RankedPlan& ranked, std::vector<std::string>& warnings);

// Fills `exports` of every plan and of the baseline for the workload's own framework. If that has
// no exporter, the result gets one warning that says so. If it cannot express a plan, the entry is
// absent and the result gets one warning for each reason.
void AddExports(const Problem& problem, StudyResult& result);

}  // namespace meshwright
