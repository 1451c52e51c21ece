#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace meshwright {

// The progress of a running attempt when its harness last wrote it (docs/harness.md).
struct HarnessProgress {
  std::string state = {};  // starting, warmup, measuring, collecting
  int step_count = 0;      // steps seen so far, including warm-up
  bool operator==(const HarnessProgress&) const = default;
};

// Reads <folder>/<attempt>.progress.jsonl. Returns nullopt if there is none yet or it has another
// token.
std::optional<HarnessProgress> ReadHarnessProgress(const std::string& folder,
                                                   const std::string& attempt_id,
                                                   std::int64_t token);

}  // namespace meshwright
