#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/store_access.h"
#include "server/engine/journal_events.h"

namespace meshwright {

// Passes the events of the store's journal on to the followers of studies. Every event, replayed or
// new, is read from the journal by revision, so none is missed or repeated. New events are read
// once for all followers of the study. May be used from any thread.
class Followers {
 public:
  explicit Followers(StoreAccess store) : store_(std::move(store)) {}
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // Replays the journal after a revision, and keeps `sink` unless the study has ended.
  absl::StatusOr<std::int64_t> Add(std::string_view study_id, std::int64_t after_revision,
                                   EventSink sink);
  // Returns once the sink is no longer being called.
  void Remove(std::int64_t subscription);

  // Passes on what has been committed since the last call. Must not be called from a store call.
  void Publish(const std::string& study_id);

  // As Publish, for all studies that are followed: for a store that other processes write. One
  // query tells which of them have new events. Returns its error; then nothing was passed on.
  absl::Status PublishAll();

  // Tells all followers that no more events will come.
  void Close();

 private:
  struct Follower {
    std::int64_t last_revision = 0;  // the newest that the follower was given
    EventSink sink = {};
  };
  struct FollowedStudy {
    std::int64_t last_revision = 0;  // all of its followers have all older events
    std::map<std::int64_t, Follower> followers = {};
  };

  // Returns false once the followers have been told that no more events will come, because the
  // study has ended or its journal cannot be read.
  bool CatchUp(const std::string& study_id, FollowedStudy& study);
  static void End(const FollowedStudy& study);

  const StoreAccess store_;
  std::mutex mutex_;  // guards all members below
  std::map<std::string, FollowedStudy> studies_;
  std::int64_t next_id_ = 1;
};

}  // namespace meshwright
