#pragma once

#include <optional>
#include <string>

#include "search_space/base/units.h"

namespace meshwright {

// What a run can have measured. The same limits hold wherever a measured figure comes in: trials,
// job reports, rows of a history or a replay, and imports.

// Far beyond what a step takes (a year) and a device has (a petabyte); sums of such stay finite.
inline constexpr Seconds kLongestStep(31'536'000);
inline constexpr Bytes kLargestPeakMemory = {1'000'000'000'000'000};

// Returns what is wrong with a measured step time, as the description of a FieldViolation, or
// nullopt if a step can take so long. `least` is the step at the devices' nominal peak, or 0 if
// that is not known. What is below it is most often milliseconds taken for seconds.
std::optional<std::string> StepTimeMistake(Seconds step_time, Seconds least);

// Returns what is wrong with a measured peak of memory, or nullopt if a device can have held so
// much.
std::optional<std::string> PeakMemoryMistake(Bytes peak);

}  // namespace meshwright
