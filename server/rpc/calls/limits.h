#pragma once

namespace meshwright {

// The limits that server and client must agree on.
inline constexpr int kMaxRequestBytes = 16 * 1024 * 1024;  // gRPC's default is 4 MiB
inline constexpr int kMaxMessageBytes = 64 * 1024 * 1024;  // of an answer
inline constexpr int kMaxErrorBytes = 1024 * 1024;         // in the trailing metadata

}  // namespace meshwright
