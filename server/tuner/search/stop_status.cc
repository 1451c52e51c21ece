#include "server/tuner/search/stop_status.h"

#include <fmt/format.h>

#include "search_space/base/status.h"

namespace meshwright {

absl::Status StopStatus(StopCause cause, std::string_view seen) {
  switch (cause) {
    case StopCause::kCancelled:
      return absl::CancelledError(fmt::format("cancelled; {}", seen));
    case StopCause::kDeadline:
      return absl::DeadlineExceededError(fmt::format("deadline reached; {}", seen));
    case StopCause::kEvaluationLimit:
      return WithReason(
          absl::ResourceExhaustedError(fmt::format("evaluation limit reached; {}", seen)),
          "EVALUATION_LIMIT");
    case StopCause::kFinished:
      break;
  }
  return absl::OkStatus();
}

absl::Status CutStatus(StopCause cause, std::string_view for_what) {
  if (cause == StopCause::kCancelled) return absl::CancelledError("cancelled");
  if (cause != StopCause::kDeadline) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format("the deadline is too short {}", for_what));
}

}  // namespace meshwright
