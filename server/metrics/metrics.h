#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/engine/engine.h"
#include "server/process/own_use.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/server.h"

namespace meshwright {

// The state of a server at the moment of a reading.
struct MetricReadings {
  StudyLoad studies = {};
  ServerLoad calls = {};
  std::int64_t answer_cache_bytes = 0;
  std::optional<std::int64_t> store_bytes = {};       // absent: not known
  std::optional<std::int64_t> store_free_bytes = {};  // of its file system
  // The time of the newest copy of the store, since 1970-01-01 UTC; absent: there is none.
  std::optional<std::int64_t> newest_backup_seconds = {};
  bool serves = false;  // as health checks say
  OwnUse process = {};
};

// The figures that an operator watches, in the text format of Prometheus (docs/metrics.md). Labels
// take words from this program only, never texts that a client chooses. May be used from any
// thread.
class Metrics {
 public:
  // `version` is the program's.
  explicit Metrics(const std::string& version);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Says how to read what is not counted here; Text() shows none of it before.
  void ReadBy(std::function<MetricReadings()> read);

  void NoteCall(const EndedCall& call);
  void NoteStoreWrite(std::chrono::duration<double> time);

  [[nodiscard]] std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
