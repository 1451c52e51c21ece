#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/plugins/accuracy.h"
#include "server/plugins/wire/model_client.h"

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

}  // namespace meshwright
