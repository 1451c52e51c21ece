#pragma once

#include <cstddef>

namespace meshwright {

// Of proto/meshwright/costmodel/v1: docs/vendor_models.md, "Versions".
inline constexpr int kProtocolMajor = 1;
inline constexpr int kProtocolMinor = 0;

// Candidates of a call: enough that the call itself costs little beside them, few enough that a
// cancel or a crash loses little.
inline constexpr std::size_t kBatchSize = 1024;

// How a model's program is told where to serve.
inline constexpr char kSocketFlag[] = "--socket";

}  // namespace meshwright
