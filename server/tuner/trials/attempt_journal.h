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

// What whoever runs the next attempt at a trial needs to know of one before it.
struct EarlierAttempt {
  std::string failure_class = {};
  std::vector<std::string> nodes = {};  // that it ran on
};

// An attempt at the trial that is open, as whoever runs it needs to know it.
struct OpenAttempt {
  std::string id = {};           // unique for ever, fit for a job's name
  std::int64_t token = 0;        // comes back with the result
  std::string external_id = {};  // the job's with its engine, where it is known
  // An earlier process began it: its job may be there, or have ended, or never have come to be.
  bool is_adopted = false;
  AttemptState state = AttemptState::kIntended;
  Seconds time = Seconds(0);                 // that it has run already
  std::vector<EarlierAttempt> earlier = {};  // at this trial
  Seconds earlier_time = Seconds(0);         // of all of them
};

// How an attempt ended, beside the outcome of its trial.
struct AttemptReport {
  std::string failure_class = {};  // empty: it was measured
  std::string message = {};        // why, in a sentence
  Seconds time = Seconds(0);       // that it was seen to run; each device is occupied so long
  std::string log_head = {};
  std::string log_tail = {};
  std::vector<std::string> nodes = {};  // that it ran on, where the engine tells
  AttemptQuality quality = {};
};

// Where a launcher of real jobs writes down what becomes of the attempts at the open trial, which
// TrialJournal begins and ends. All but `report` return once it is durable. Called from the study's
// thread. An empty one: nothing is written down, and no job can be run.
struct AttemptJournal {
  std::function<absl::StatusOr<OpenAttempt>()> newest = {};
  std::function<absl::Status(AttemptState state, const std::string& external_id,
                             const std::vector<std::string>& nodes)>
      update = {};  // no nodes: those that were told stay
  // Ends the newest attempt so, and begins one more.
  std::function<absl::StatusOr<OpenAttempt>(const AttemptReport&)> again = {};
  // What to say of the newest attempt when its trial ends.
  std::function<void(const AttemptReport&)> report = {};
};

}  // namespace meshwright
