#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// How a vendor's program is confined, as the server states it on the host's command line.
struct Confinement {
  int parent = 0;                         // when this process ends, everything ends
  std::string folder = {};                // holds the socket; the only place that can be written
  std::int64_t memory_bytes = 0;          // address space of each process
  std::int64_t cpu_seconds = 0;           // limit of each process
  std::int64_t file_bytes = 0;            // a file's size
  std::int64_t open_files = 0;            // limit of each process
  std::int64_t processes = 0;             // most that run at once
  std::vector<std::string> command = {};  // the program and its arguments
};

// Runs the command confined and waits for it: in namespaces of its own if the kernel allows them
// (user, process ids, network without any device, shared memory, a read-only view of the file
// system with few devices), and behind a filter of calls (call_filter.h). Prints to stdout, in one
// line, what was allowed. Ends everything that the command has started when the command ends, when
// the parent ends, or on SIGTERM. Returns the command's exit code, 128 + the signal that ended it,
// or 125 if more processes ran than allowed; counting them needs process ids of their own. The
// calling process must have one thread.
absl::StatusOr<int> RunConfined(const Confinement& confinement);

}  // namespace meshwright
