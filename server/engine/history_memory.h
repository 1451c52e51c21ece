#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "recorder/store_access.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The pairs of chip and framework whose measurements are remembered, and the jobs of each whose own
// measurements are. Each has at most kMaxStoreRows rows (store_history.h).
inline constexpr std::size_t kMaxRememberedChips = 4;
inline constexpr std::size_t kMaxRememberedJobs = 4;

// Remembers the measurements that answers learn from, resolved and modelled, so that an answer only
// reads and models those that came since the one before. What it gives is what ReadStoreHistory
// gives. May be used from any thread.
class HistoryMemory {
 public:
  // `knowledge` outlives it.
  HistoryMemory(StoreAccess store, const Knowledge& knowledge, StudyCodec codec);
  ~HistoryMemory();
  HistoryMemory(const HistoryMemory&) = delete;
  HistoryMemory& operator=(const HistoryMemory&) = delete;

  absl::StatusOr<StoreHistory> Read(const Problem& problem, std::int64_t up_to_sequence);

 private:
  class Shelf;  // measurements on one chip under one framework
  using Key = std::pair<std::string, std::string>;

  std::shared_ptr<Shelf> ShelfOf(const Problem& problem);

  const StoreAccess store_;
  const Knowledge& knowledge_;
  const StudyCodec codec_;

  std::mutex mutex_;
  std::list<std::pair<Key, std::shared_ptr<Shelf>>> shelves_;  // the one used last is first
};

}  // namespace meshwright
