#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace meshwright {

// How far the harness of a running attempt had come when it last wrote (docs/harness.md).
struct HarnessProgress {
  std::string state = {};  // starting, warmup, measuring, collecting
  int step_count = 0;      // steps that it has seen, warm-up included
  bool operator==(const HarnessProgress&) const = default;
};

// From <folder>/<attempt>.progress.jsonl. Nothing: there is none yet, or it is of another token.
std::optional<HarnessProgress> ReadHarnessProgress(const std::string& folder,
                                                   const std::string& attempt_id,
                                                   std::int64_t token);

}  // namespace meshwright
