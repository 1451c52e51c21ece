#include "server/tuner/question/trial.h"

#include <cstdlib>
#include <type_traits>

namespace meshwright {
namespace {

constexpr Seconds kStartUp(120);
constexpr double kSteps = 10;

}  // namespace

Outcome OutcomeOf(const TrialOutcome& outcome) {
  constexpr Outcome kWords[] = {Outcome::kOk,   Outcome::kOom,     Outcome::kCrash,
                                Outcome::kHang, Outcome::kTimeout, Outcome::kCancelled};
  static_assert(std::size(kWords) == std::variant_size_v<TrialOutcome>);
  return kWords[outcome.index()];
}

TrialOutcome TrialOutcomeOf(Outcome word, Seconds step_time, std::optional<Bytes> peak_memory) {
  switch (word) {
    case Outcome::kOk:
      return Ran{.step_time = step_time, .peak_memory = peak_memory};
    case Outcome::kOom:
      return OutOfMemory();
    case Outcome::kCrash:
      return Crashed();
    case Outcome::kHang:
      return Hung();
    case Outcome::kTimeout:
      return TimedOut();
    case Outcome::kCancelled:
      return Cancelled();
  }
  std::abort();
}

Seconds TrialTime(Seconds step_time) { return kStartUp + kSteps * step_time; }

std::string_view Word(TrialStop stop) {
  switch (stop) {
    case TrialStop::kAllTried:
      return "all_tried";
    case TrialStop::kRestRuledOut:
      return "rest_ruled_out";
    case TrialStop::kTrialLimit:
      return "trial_limit";
    case TrialStop::kDeviceTimeLimit:
      return "device_time_limit";
    case TrialStop::kTimeLimit:
      return "time_limit";
    case TrialStop::kWithinRatio:
      return "within_ratio";
    case TrialStop::kLauncherFailed:
      return "launcher_failed";
    case TrialStop::kStoreFailed:
      return "store_failed";
    case TrialStop::kCancelled:
      return "cancelled";
  }
  std::abort();
}

}  // namespace meshwright
