#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "meshwright/v1/catalog.pb.h"
#include "server/auth/callers.h"
#include "server/rpc/calls/call_end.h"

namespace meshwright {

// Counts the calls of each caller of a server. May be used from any thread.
class CallerCounts {
 public:
  // Times are milliseconds since 1970-01-01 UTC. `start_ms` is the time from which calls are noted.
  explicit CallerCounts(std::int64_t start_ms) : start_ms_(start_ms) {}

  void NoteCall(const EndedCall& call, std::int64_t now_ms);

  // Returns the callers of the list, and those that have called before they were taken off it.
  // Without a list (null), everybody may call, and there are no callers.
  [[nodiscard]] v1::ListCallersResponse List(const KnownCallers* callers) const;

 private:
  struct Count {
    std::int64_t calls = 0;
    std::int64_t refused = 0;
    std::int64_t failed = 0;
    std::int64_t last_ms = 0;
  };
  static v1::Caller ToWire(const KnownCaller& caller, const Count& count, bool is_listed);

  const std::int64_t start_ms_;
  mutable std::mutex mutex_;
  std::map<KnownCaller, Count> counts_;  // guarded by the mutex, as is what follows
  std::int64_t unknown_ = 0;
};

}  // namespace meshwright
