#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// The limits of what a request may hold. They are checked before any work, so that a few megabytes
// cannot ask for hours of it (docs/limits.md). A field that has a lower limit of its own names it.
inline constexpr int kMaxCases = 10'000;           // cases, and pairs of them, of one EvaluatePlans
inline constexpr int kMaxRows = 20'000;            // rows of history or of replay
inline constexpr int kMaxElements = 10'000;        // numbers or messages in any other list
inline constexpr int kMaxTexts = 1'000;            // texts in a list
inline constexpr int kMaxElementsInAll = 300'000;  // texts and messages in all lists together
inline constexpr std::size_t kMaxTextBytes = 4'096;     // of a text of one line
inline constexpr std::size_t kMaxLinesBytes = 1 << 20;  // of a text of several lines, or of JSON

// Returns INVALID_ARGUMENT that names each list and each text of a request that is too long.
absl::Status CheckLimits(const google::protobuf::Message& request);

}  // namespace meshwright
