#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/model_process.h"
#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// What models are asked about: a dense model of about 7 billion parameters on two whole nodes of 8
// devices of the chip.
Question ConformanceQuestion(std::string_view chip);

// The same, resolved, in the chip's own precision, or, where the model knows precisions without
// bf16, in the first of them.
absl::StatusOr<Problem> ConformanceProblem(std::string_view chip, const ModelInfo& model,
                                           const Knowledge& knowledge);

// Runs the whole list against a model's own process, which is stopped and started on the way.
// Always a report; a check that a dead model cannot pass has failed.
ConformanceReport CheckConformance(const ProcessSpec& model, const Problem& problem);

}  // namespace meshwright
