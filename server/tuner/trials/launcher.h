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

// A plan to be run; `id` is the caller's, unique with a launcher.
struct TrialJob {
  int id = 0;
  ParallelPlan plan = {};
  // Of the budgets, for all attempts at it together: as much is reserved, and real jobs run no
  // longer.
  std::optional<Seconds> time_left = {};
};

struct FinishedTrial {
  int id = 0;
  TrialOutcome outcome = Cancelled();
  Seconds time = Seconds(0);         // that it occupied its devices
  std::string failure_class = {};    // of a job that was not measured: why
  std::string failure_message = {};  // the same in a sentence
  // Of one that was measured: why its time is doubted, and what it ran in, where that is told.
  std::vector<std::string> suspect_reasons = {};
  std::string environment_digest = {};
};

// Runs plans as jobs: of a cluster's scheduler, or a measured table that stands in for one. Jobs
// run beside the caller, so submitting returns at once and ends are waited for. An error is the
// launcher's own (no scheduler, no permission); whatever becomes of a job is an outcome. Called by
// the trial loop (trials.h), from one thread.
class Launcher {
 public:
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  virtual absl::Status Submit(const TrialJob& job) = 0;
  // The next end of a job that has been submitted; nothing when none has come by `limit`. Each end
  // is told once.
  virtual absl::StatusOr<std::optional<FinishedTrial>> Wait(Seconds limit) = 0;
  // Asks for the end of a job, which Wait then tells; of a job that has ended nothing changes.
  virtual void Cancel(int id) = 0;
  // Whether what runs goes on without this process, for a later one to take up.
  [[nodiscard]] virtual bool OutlivesProcess() const { return false; }
};

}  // namespace meshwright
