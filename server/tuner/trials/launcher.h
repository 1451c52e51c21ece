#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// A plan to be run. The caller chooses `id`, which is unique for a launcher.
struct TrialJob {
  int id = 0;
  ParallelPlan plan = {};
  // Time that the budgets leave for all attempts at this job together. This much is reserved, and
  // real jobs run no longer.
  std::optional<Seconds> time_left = {};
};

struct FinishedTrial {
  int id = 0;
  TrialOutcome outcome = Cancelled();
  Seconds time = Seconds(0);         // time that it occupied its devices
  std::string failure_class = {};    // why a job was not measured
  std::string failure_message = {};  // the same as a sentence
  // If it was measured: reasons to doubt its time, and the digest of its environment if known.
  std::vector<std::string> suspect_reasons = {};
  std::string environment_digest = {};
};

// Runs plans as jobs of a cluster's scheduler, or looks them up in a measured table that replaces
// one. Jobs run concurrently with the caller: submitting returns at once, and Wait returns their
// ends. An error is the launcher's own (no scheduler, no permission); every end of a job is an
// outcome. The trial loop (trials.h) calls it from one thread.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  virtual absl::Status Submit(const TrialJob& job) = 0;
  // Returns the next end of a submitted job, or nullopt if none ends within `limit`. Each end is
  // returned once.
  virtual absl::StatusOr<std::optional<FinishedTrial>> Wait(Seconds limit) = 0;
  // Requests the end of a job, which Wait then returns. Has no effect on a job that has ended.
  virtual void Cancel(int id) = 0;
  // Returns true if running jobs continue without this process, so that a later one can adopt them.
  [[nodiscard]] virtual bool OutlivesProcess() const { return false; }
};

}  // namespace meshwright
