#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recorder/history_records.h"
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
  // `version` is the program's. `chips` are those of its catalogue; all others share one label.
  Metrics(const std::string& version, std::vector<std::string> chips);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Says how to read what is not counted here; Text() shows none of it before.
  void ReadBy(std::function<MetricReadings()> read);

  void NoteCall(const EndedCall& call);
  void NoteStoreWrite(std::chrono::duration<double> time);
  // Counts a trial or a reported job that ended well and whose step time was expected. Rows of a
  // table that were replayed do not count.
  void NoteMeasurement(const MeasurementRecord& measurement);

  [[nodiscard]] std::string Text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright
