#pragma once

namespace meshwright {

// The limits that server and client must agree on, and those of connections and queues.
inline constexpr int kMaxRequestBytes = 16 * 1024 * 1024;  // gRPC's default is 4 MiB
inline constexpr int kMaxMessageBytes = 64 * 1024 * 1024;  // of an answer
inline constexpr int kMaxErrorBytes = 1024 * 1024;         // in the trailing metadata

// The open calls, and the open watches, of one connection.
inline constexpr int kCallsOfConnection = 128;
inline constexpr int kWatchesOfConnection = 128;

// The calls that may wait for a worker, all together and of one connection; further ones are
// refused at once.
inline constexpr int kWaitingCalls = 256;
inline constexpr int kWaitingCallsOfConnection = kWaitingCalls / 4;
inline constexpr int kWaitingHeavyCalls = 32;
inline constexpr int kWaitingHeavyCallsOfConnection = kWaitingHeavyCalls / 4;

}  // namespace meshwright
