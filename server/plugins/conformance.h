#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/accuracy.h"
#include "server/plugins/model_client.h"
#include "server/plugins/model_process.h"
#include "server/tuner/problem.h"

namespace meshwright {

enum class CheckOutcome { kPassed, kFailed, kSkipped };
std::string_view Word(CheckOutcome outcome);  // passed, failed, skipped

// One check of the conformance list (docs/vendor_models.md).
struct CheckResult {
  std::string name = {};  // "determinism"
  std::string what = {};  // for people: what must hold
  CheckOutcome outcome = CheckOutcome::kFailed;
  std::string detail = {};  // what was seen
};

struct ConformanceReport {
  ModelInfo info = {};         // empty when the handshake failed
  std::string isolation = {};  // that the kernel allowed
  std::vector<CheckResult> checks = {};
  std::string log_tail = {};  // what the model wrote
  // Beside measured runs, where there are any; what it shows is no check.
  std::optional<Accuracy> accuracy = {};
};

bool IsPassed(const ConformanceReport& report);

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
