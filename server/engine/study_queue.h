#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "recorder/records.h"
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
  bool is_cancelled_by_user = false;
  // A study that its user pauses becomes kPaused when it has stopped, and kQueued if it is resumed
  // before that.
  std::optional<StudyState> next_state = {};
  std::optional<absl::Status> failure = {};  // the study ends with it, whatever its answer is
};

Lane LaneOf(const StudyRequest& request);
// Returns the lane of a request by the launcher of its trials; empty: it has none.
Lane LaneOf(std::string_view launcher);

// The studies that wait and those that run. Guarded by the engine's mutex.
class StudyQueue {
 public:
  void Push(std::string id, Lane lane) { Waiting(lane).push_back(std::move(id)); }

  [[nodiscard]] bool IsEmpty(Lane lane) { return Waiting(lane).empty(); }

  // Removes the oldest waiting study from its queue, marks it as running and returns its id.
  std::string Begin(Lane lane) {
    std::string id = std::move(Waiting(lane).front());
    Waiting(lane).pop_front();
    RunningStudy& study = running_[id];
    study.lane = lane;
    if (const auto ends = to_end_.extract(id); !ends.empty()) {
      study.failure = ends.mapped();
      study.is_cancelled_by_user = !study.failure.has_value();
      study.cancel.request_stop();
    }
    return id;
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
    for (std::deque<std::string>& waiting : waiting_) std::erase(waiting, id);
  }

  // Marks a study to be stopped as soon as it begins, because one of its jobs has to be ended. The
  // study ends with the failure or, if there is none, as cancelled by its user.
  void EndWhenItBegins(const std::string& id, std::optional<absl::Status> failure) {
    to_end_.insert_or_assign(id, std::move(failure));
  }

  // Returns all running studies, so that they can be stopped and their jobs left to the next
  // process.
  [[nodiscard]] std::vector<RunningStudy> All() const {
    std::vector<RunningStudy> all;
    for (const auto& [id, study] : running_) all.push_back(study);
    return all;
  }

 private:
  std::deque<std::string>& Waiting(Lane lane) {
    return waiting_.at(static_cast<std::size_t>(lane));
  }

  std::array<std::deque<std::string>, kLaneCount> waiting_ = {};
  std::map<std::string, RunningStudy, std::less<>> running_ = {};
  std::map<std::string, std::optional<absl::Status>> to_end_ = {};
};

}  // namespace meshwright
