#pragma once

#include <chrono>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/model_process.h"
#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns the question that models are asked: a dense model of about 7 billion parameters on two
// whole nodes of 8 devices of the chip.
Question ConformanceQuestion(std::string_view chip);

// Resolves that question in the chip's own precision, or in the model's first precision if it
// declares some but not bf16.
absl::StatusOr<Problem> ConformanceProblem(std::string_view chip, const ModelInfo& model,
                                           const Knowledge& knowledge);

// Runs the whole list against a process of the model, which is stopped and started on the way.
// There is always a report; checks that a dead model cannot pass have failed. The limit of a start
// is part of what a model promises; only tests, on machines that are busy with others, give it
// more.
ConformanceReport CheckConformance(
    const ProcessSpec& model, const Problem& problem,
    std::chrono::milliseconds start_limit = std::chrono::seconds(10));

}  // namespace meshwright
