#pragma once

#include <cstddef>

namespace meshwright {

// The major version of proto/meshwright/costmodel/v1 (docs/vendor_models/contract.md, "Versions").
inline constexpr int kProtocolMajor = 1;
inline constexpr int kProtocolMinor = 0;

// Candidates per call: enough that the call itself costs little, and few enough that a cancel or a
// crash loses little.
inline constexpr std::size_t kBatchSize = 1024;

// The flag that tells a model's program where to serve.
inline constexpr char kSocketFlag[] = "--socket";

}  // namespace meshwright
