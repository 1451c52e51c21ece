#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"

namespace meshwright {

// The facts about an earlier attempt at a trial that the next one needs.
struct EarlierAttempt {
  std::string failure_class = {};
  std::vector<std::string> nodes = {};  // nodes that it ran on
};

// An attempt at the open trial, with the facts that its runner needs.
struct OpenAttempt {
  std::string id = {};           // globally unique, usable as a job's name
  std::int64_t token = 0;        // returned with the result
  std::string external_id = {};  // the engine's id of the job, if known
  // True if an earlier process began it. Its job may still exist, may have ended or may never have
  // started.
  bool is_adopted = false;
  AttemptState state = AttemptState::kIntended;
  Seconds time = Seconds(0);                 // time that it has run already
  std::vector<EarlierAttempt> earlier = {};  // earlier attempts at this trial
  Seconds earlier_time = Seconds(0);         // total time of those
};

// The end of an attempt, except for the outcome of its trial.
struct AttemptReport {
  std::string failure_class = {};  // empty: it was measured
  std::string message = {};        // the reason in a sentence
  Seconds time = Seconds(0);       // observed run time, during which every device is occupied
  std::string log_head = {};
  std::string log_tail = {};
  std::vector<std::string> nodes = {};  // nodes that it ran on, if the engine reports them
  AttemptQuality quality = {};
};

// A journal in which a launcher of real jobs records the attempts at the open trial, which
// TrialJournal begins and ends. All functions but `report` return once the record is durable. They
// are called from the study's thread. An empty journal records nothing, and no job can be run with
// it.
struct AttemptJournal {
  std::function<absl::StatusOr<OpenAttempt>()> newest = {};
  std::function<absl::Status(AttemptState state, const std::string& external_id,
                             const std::vector<std::string>& nodes)>
      update = {};  // no nodes: the recorded ones stay
  // Ends the newest attempt with this report and begins another one.
  std::function<absl::StatusOr<OpenAttempt>(const AttemptReport&)> again = {};
  // Sets the report of the newest attempt, which is recorded when its trial ends.
  std::function<void(const AttemptReport&)> report = {};
};

}  // namespace meshwright
