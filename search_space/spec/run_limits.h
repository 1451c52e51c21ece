#pragma once

#include <optional>
#include <string>

#include "search_space/base/units.h"

namespace meshwright {

// The limits of measured figures. They apply wherever such a figure enters: in trials, job reports,
// rows of a history or a replay, and imports.

// Far beyond a possible step (a year) and a possible device (a petabyte), and small enough that
// sums stay finite.
inline constexpr Seconds kLongestStep(31'536'000);
inline constexpr Bytes kLargestPeakMemory = {1'000'000'000'000'000};

// Returns a description of the mistake in a measured step time, for a FieldViolation, or nullopt if
// a step can take that long. `least` is the time of the step at the devices' nominal peak, or 0 if
// it is unknown. A time below it is usually in milliseconds instead of seconds.
std::optional<std::string> StepTimeMistake(Seconds step_time, Seconds least);

// Returns a description of the mistake in a measured peak of memory, or nullopt if a device can
// have held that much.
std::optional<std::string> PeakMemoryMistake(Bytes peak);

}  // namespace meshwright
