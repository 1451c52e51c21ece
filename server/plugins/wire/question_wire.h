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

// A problem as models are asked it, with the parameters that they fitted for its chip.
costmodel::v1::OpenContextRequest ToContext(const Problem& problem,
                                            const CalibrationParameters& calibration = {});

// Of the words of GetInfoResponse.operators those that a model must be known to handle, beside what
// every transformer has: moe, mla, sliding_window, mtp.
std::vector<std::string_view> OperatorsOf(const ModelSpec& model);

// Plans as columns, without those that all plans have at their default. Plans of mixed clusters
// (`stages`) have no columns: they are not to be asked about.
costmodel::v1::Candidates ToCandidates(std::span<const ParallelPlan> plans, const Problem& problem);

// What a model answered, unchecked but for its shape; a breakdown that was not asked for is
// dropped. INTERNAL: columns that do not have `count` entries, more or longer breakdown names than
// are taken.
absl::StatusOr<std::vector<PlanFigures>> FromWire(
    const costmodel::v1::EstimateBatchResponse& response, std::size_t count, bool with_breakdown);

}  // namespace meshwright
