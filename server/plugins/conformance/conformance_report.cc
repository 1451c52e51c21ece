#include "server/plugins/conformance/conformance_report.h"

#include <algorithm>
#include <cstdlib>

namespace meshwright {

std::string_view Word(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kPassed:
      return "passed";
    case CheckOutcome::kFailed:
      return "failed";
    case CheckOutcome::kSkipped:
      break;
  }
  return "skipped";
}

bool IsPassed(const ConformanceReport& report) {
  return std::ranges::none_of(report.checks, [](const CheckResult& check) {
    return check.outcome == CheckOutcome::kFailed;
  });
}

}  // namespace meshwright
