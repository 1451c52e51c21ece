#include "search_space/spec/run_limits.h"

#include <fmt/format.h>

#include <cmath>

namespace meshwright {

std::optional<std::string> StepTimeMistake(Seconds step_time, Seconds least) {
  const double seconds = step_time.count();
  if (!std::isfinite(seconds) || seconds <= 0) return fmt::format("{}; must be > 0", seconds);
  if (step_time > kLongestStep) {
    return fmt::format("{}; must be <= {}", seconds, kLongestStep.count());
  }
  if (step_time >= least) return std::nullopt;
  return fmt::format("{}; the devices' nominal peak allows no step below {:.3g}", seconds,
                     least.count());
}

std::optional<std::string> PeakMemoryMistake(Bytes peak) {
  if (peak.count <= 0) return fmt::format("{}; must be > 0", peak.count);
  if (peak <= kLargestPeakMemory) return std::nullopt;
  return fmt::format("{}; must be <= {}", peak.count, kLargestPeakMemory.count);
}

}  // namespace meshwright
