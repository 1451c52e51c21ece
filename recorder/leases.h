#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "recorder/records.h"

namespace meshwright {

// Several processes may share the studies of a store. Each study that runs is leased to one of
// them. A lease has a token, which grows with every claim of its study, so that a process that was
// stopped for too long is told from the one that has the study now.

// The claim of a process on a study that waits to be run.
struct StudyClaim {
  std::string study_id = {};
  std::string owner = {};  // the name of the process
  // The time for which the claim holds unless it is renewed, in milliseconds of the store's clock;
  // absent: until it is given back.
  std::optional<std::int64_t> lease_ms = {};
  std::int64_t time_ms = 0;
};

// The right to write about a study that runs.
struct StudyLease {
  std::string study_id = {};
  std::int64_t token = 0;
  bool operator==(const StudyLease&) const = default;
};

struct ClaimedStudy {
  StudyRecord study = {};
  StudyLease lease = {};
};

// The state of a leased study, as the holder of its lease needs it.
struct LeaseStanding {
  bool is_held = false;  // false: another process has the study, or it was deleted
  StudyState state = StudyState::kRunning;
  bool is_to_pause = false;  // somebody wants it to pause
};

}  // namespace meshwright
