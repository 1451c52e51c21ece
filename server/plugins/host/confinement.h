#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// How a vendor's program is shut in, as the server states it on the host's command line.
struct Confinement {
  int parent = 0;                         // process that must be alive: when it ends, all ends
  std::string folder = {};                // of the socket; the only place that can be written
  std::int64_t memory_bytes = 0;          // address space of each process
  std::int64_t cpu_seconds = 0;           // of each process
  std::int64_t file_bytes = 0;            // a file's size
  std::int64_t open_files = 0;            // of each process
  std::int64_t processes = 0;             // that run at once; below 0: no limit
  std::vector<std::string> command = {};  // the program and its arguments
};

// Runs the command in namespaces of its own where the kernel allows them (user, process ids,
// network without any device, shared memory, a read-only view of the file system with few devices),
// behind a filter of calls (call_filter.h), says on stdout in one line what it was allowed, and
// waits. Ends everything that the command has started when the command ends,
// when the parent ends, or on SIGTERM. Gives the command's exit code, 128 + the number of the
// signal that ended it, or 125 where more processes ran than allowed: counting them needs process
// ids of their own. The process has one thread.
absl::StatusOr<int> RunConfined(const Confinement& confinement);

}  // namespace meshwright
