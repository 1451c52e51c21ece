#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "server/process/descriptor.h"

namespace meshwright {

// Takes a piece of what a child wrote. Returns for how long no more is to be read, so that a child
// that writes too fast waits in its writes.
using OutputSink = std::function<std::chrono::milliseconds(std::string_view piece)>;

// Hands to `sink` what is written to the read end of a pipe, until `process` (OpenProcess) has
// ended and what it left in the pipe has been read. RESOURCE_EXHAUSTED if no descriptors are left
// to wait with.
absl::Status FollowOutput(FileHandle pipe, const FileHandle& process, const OutputSink& sink);

// Waits until nobody holds the write end of a pipe any more. Returns false if that takes longer
// than `limit`.
bool WaitForClose(const FileHandle& pipe, std::chrono::milliseconds limit);

}  // namespace meshwright
