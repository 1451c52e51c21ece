#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
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

// A study that waits for a thread of the engine.
struct WaitingStudy {
  std::string id = {};
  Lane lane = Lane::kSearches;
  std::string creator = {};  // StudyRecord's
};

// A study on a thread of the engine.
struct RunningStudy {
  Lane lane = Lane::kSearches;
  std::string creator = {};  // StudyRecord's
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

// The studies that wait and those that run. The creators of the studies in a lane take turns:
// before a creator's next study begins, at most one study of each other creator does. The studies
// of one creator begin in their order. Guarded by the engine's mutex.
class StudyQueue {
 public:
  // Does nothing if the study waits already.
  void Push(WaitingStudy study) {
    if (!ids_.insert(study.id).second) return;
    LaneQueue& queue = Queue(study.lane);
    std::deque<std::string>& waiting = queue.waiting[study.creator];
    if (waiting.empty()) queue.turns.push_back(study.creator);
    waiting.push_back(std::move(study.id));
  }

  [[nodiscard]] bool IsEmpty(Lane lane) { return Queue(lane).turns.empty(); }

  // Removes the study whose turn it is from its queue, marks it as running and returns it. A study
  // that runs here is left out, because it is about to be claimed. Returns nullopt if none is left.
  std::optional<WaitingStudy> Begin(Lane lane) {
    LaneQueue& queue = Queue(lane);
    while (!queue.turns.empty()) {
      WaitingStudy study = {.lane = lane, .creator = std::move(queue.turns.front())};
      queue.turns.pop_front();
      const auto of_creator = queue.waiting.find(study.creator);
      study.id = std::move(of_creator->second.front());
      of_creator->second.pop_front();
      if (of_creator->second.empty()) {
        queue.waiting.erase(of_creator);
      } else {
        queue.turns.push_back(study.creator);
      }
      ids_.erase(study.id);
      if (running_.try_emplace(study.id, RunningStudy{.lane = lane, .creator = study.creator})
              .second) {
        return study;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] int CountWaiting(Lane lane) const {
    const auto& waiting = lanes_.at(static_cast<std::size_t>(lane)).waiting;
    return std::accumulate(waiting.begin(), waiting.end(), 0, [](int count, const auto& entry) {
      return count + static_cast<int>(entry.second.size());
    });
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
    for (LaneQueue& queue : lanes_) {
      for (auto& [creator, waiting] : queue.waiting) std::erase(waiting, id);
      std::erase_if(queue.turns, [&queue](const std::string& creator) {
        return queue.waiting.at(creator).empty();
      });
      std::erase_if(queue.waiting, [](const auto& entry) { return entry.second.empty(); });
    }
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
  // The waiting studies of a lane by their creators, each of whom has one, and the creators in the
  // order of their turns.
  struct LaneQueue {
    std::map<std::string, std::deque<std::string>, std::less<>> waiting = {};
    std::deque<std::string> turns = {};
  };
  LaneQueue& Queue(Lane lane) { return lanes_.at(static_cast<std::size_t>(lane)); }

  std::array<LaneQueue, kLaneCount> lanes_ = {};
  std::map<std::string, RunningStudy, std::less<>> running_ = {};
  std::unordered_set<std::string> ids_ = {};  // of the waiting studies
};

}  // namespace meshwright
