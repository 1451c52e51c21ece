#pragma once

#include <chrono>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "server/process/descriptor.h"

namespace meshwright {

// Takes a piece of what a child wrote. Returns for how long to stop reading, so that a child that
// writes too fast has to wait in its writes.
using OutputSink = std::function<std::chrono::milliseconds(std::string_view piece)>;

// Passes on to `sink` what is written to the read end of a pipe, until `process` (OpenProcess) has
// ended and the rest in the pipe has been read. Returns RESOURCE_EXHAUSTED if no descriptors are
// left to wait with.
absl::Status FollowOutput(FileHandle pipe, const FileHandle& process, const OutputSink& sink);

// Waits until no process holds the write end of a pipe any more. Returns false if that takes longer
// than `limit`.
bool WaitForClose(const FileHandle& pipe, std::chrono::milliseconds limit);

}  // namespace meshwright
