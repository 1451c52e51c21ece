#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "recorder/leases.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The queues of studies. Studies whose trials are jobs wait for a cluster, perhaps for hours. They
// have threads of their own, so that they do not delay searches.
enum class Lane { kSearches, kJobs };
inline constexpr int kLaneCount = 2;

// A study on a thread of the engine.
struct RunningStudy {
  Lane lane = Lane::kSearches;
  std::stop_source cancel = {};
  std::stop_source leave = {};  // StudyControl's
  std::int64_t token = 0;       // of its lease; 0: it is not claimed yet
  bool is_cancelled_by_user = false;
  // It stops, because its user wants it to pause. If its user has thought better of it by the time
  // at which it has stopped, it is queued instead.
  bool is_pausing = false;
  bool is_lost = false;                      // another server has it; nothing of it is stored
  std::optional<absl::Status> failure = {};  // the study ends with it, whatever its answer is
};

Lane LaneOf(const StudyRequest& request);
// Returns the lane of a request by the launcher of its trials; empty: it has none.
Lane LaneOf(std::string_view launcher);

// The studies that wait and those that run. Guarded by the engine's mutex.
class StudyQueue {
 public:
  // Does nothing if the study waits already.
  void Push(std::string id, Lane lane) {
    if (ids_.insert(id).second) Waiting(lane).push_back(std::move(id));
  }

  [[nodiscard]] bool IsEmpty(Lane lane) { return Waiting(lane).empty(); }

  // Removes the oldest waiting study from its queue, marks it as running and returns its id. A
  // study that runs here is left out, because it is about to be claimed. Returns nullopt if none is
  // left.
  std::optional<std::string> Begin(Lane lane) {
    while (!IsEmpty(lane)) {
      std::string id = std::move(Waiting(lane).front());
      Waiting(lane).pop_front();
      ids_.erase(id);
      if (running_.try_emplace(id, RunningStudy{.lane = lane}).second) return id;
    }
    return std::nullopt;
  }

  [[nodiscard]] int CountWaiting(Lane lane) const {
    return static_cast<int>(waiting_.at(static_cast<std::size_t>(lane)).size());
  }
  [[nodiscard]] int CountRunning(Lane lane) const {
    const auto is_of_lane = [lane](const auto& entry) { return entry.second.lane == lane; };
    return static_cast<int>(std::ranges::count_if(running_, is_of_lane));
  }

  // Returns null if the study does not run.
  RunningStudy* Running(std::string_view id) {
    const auto found = running_.find(id);
    return found == running_.end() ? nullptr : &found->second;
  }

  void End(std::string_view id) { running_.erase(running_.find(id)); }

  void Remove(const std::string& id) {
    if (ids_.erase(id) == 0) return;
    for (std::deque<std::string>& waiting : waiting_) std::erase(waiting, id);
  }

  // Returns the studies that wait, in no order.
  [[nodiscard]] const std::unordered_set<std::string>& waiting_ids() const { return ids_; }

  // Returns all running studies, so that they can be stopped and their jobs left to the next
  // process.
  [[nodiscard]] std::vector<RunningStudy> All() const {
    std::vector<RunningStudy> all;
    for (const auto& [id, study] : running_) all.push_back(study);
    return all;
  }

  // Returns the leases of the running studies that this process has.
  [[nodiscard]] std::vector<StudyLease> Leases() const {
    std::vector<StudyLease> leases;
    for (const auto& [id, study] : running_) {
      if (study.token != 0 && !study.is_lost)
        leases.push_back({.study_id = id, .token = study.token});
    }
    return leases;
  }

 private:
  std::deque<std::string>& Waiting(Lane lane) {
    return waiting_.at(static_cast<std::size_t>(lane));
  }

  std::array<std::deque<std::string>, kLaneCount> waiting_ = {};
  std::map<std::string, RunningStudy, std::less<>> running_ = {};
  std::unordered_set<std::string> ids_ = {};  // of the waiting studies
};

}  // namespace meshwright
