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

// A check of the conformance list (docs/vendor_models/checks.md).
struct CheckResult {
  std::string name = {};  // such as "determinism"
  std::string what = {};  // requirement, as text for people
  CheckOutcome outcome = CheckOutcome::kFailed;
  std::string detail = {};  // finding, as text for people
};

struct ConformanceReport {
  ModelInfo info = {};         // empty if the handshake failed
  std::string isolation = {};  // as the kernel allowed it
  std::vector<CheckResult> checks = {};
  std::string log_tail = {};  // the end of what the model wrote
  // The comparison with measured runs, if there are any. It is no check.
  std::optional<Accuracy> accuracy = {};
};

bool IsPassed(const ConformanceReport& report);

}  // namespace meshwright
