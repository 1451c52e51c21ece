#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/engine/engine.h"

namespace meshwright {

// Hands the events of the store's journal to those who follow studies. Every event, replayed or
// new, is read from the journal by revision, so none is missed or repeated. Guarded by the engine's
// lock.
class Followers {
 public:
  // Replays, and keeps `sink` unless the study has ended.
  absl::StatusOr<std::int64_t> Add(const Recorder& recorder, std::string_view study_id,
                                   std::int64_t after_revision, EventSink sink);
  void Remove(std::int64_t subscription) { followers_.erase(subscription); }

  // Hands out what has been appended since the last call.
  void Publish(const Recorder& recorder, std::string_view study_id);

  // Tells everybody that no more will come.
  void Close();

 private:
  struct Follower {
    std::string study_id = {};
    std::int64_t last_revision = 0;
    EventSink sink = {};
  };
  // Whether the follower is to be kept: its study lives and the journal could be read.
  static bool CatchUp(const Recorder& recorder, Follower& follower);

  std::map<std::int64_t, Follower> followers_;
  std::int64_t next_id_ = 1;
};

// How often the process was lost while it ran this study and had ended no trial since the last
// loss: state events that go from running to interrupted, but for those that an orderly stop wrote
// (kShutdownEventKind stands before them).
absl::StatusOr<int> CrashCount(const Recorder& recorder, std::string_view study_id);

inline constexpr char kProgressEventKind[] = "progress";
inline constexpr char kShutdownEventKind[] = "shutdown";
inline constexpr char kTrialEventKind[] = "trial";  // one has ended; the payload is its number

}  // namespace meshwright
