#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/plugins/wire/calibration.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Converts a problem to the question for a model, with the parameters that the model fitted for its
// chip.
costmodel::v1::OpenContextRequest ToContext(const Problem& problem,
                                            const CalibrationParameters& calibration = {});

// Returns the words of GetInfoResponse.operators that a model must declare for this problem, beyond
// what every transformer has: moe, mla, sliding_window, mtp; and mixed_layers and sparse_attention,
// which version 1 of the contract cannot describe, so that no model of it is asked about them.
std::vector<std::string_view> OperatorsOf(const ModelSpec& model);

// Converts plans to columns and leaves out columns in which all plans have the default. Plans of
// mixed clusters (`stages`) have no columns and must not be asked about.
costmodel::v1::Candidates ToCandidates(std::span<const ParallelPlan> plans, const Problem& problem);

// Converts a model's answer, of which only the shape is checked; a breakdown that was not asked for
// is dropped. INTERNAL for columns that do not have `count` entries, and for too many or too long
// breakdown names.
absl::StatusOr<std::vector<PlanFigures>> FromWire(
    const costmodel::v1::EstimateBatchResponse& response, std::size_t count, bool with_breakdown);

}  // namespace meshwright
