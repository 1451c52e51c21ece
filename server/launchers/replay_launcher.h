#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

// Replays measured results in place of a cluster: a plan's trial ends at once with the outcome of
// its rows. If a plan has several rows, the median time and peak memory of those that ran count; if
// most of them did not run, it fails, out of memory if one of them did. The occupied time is that
// of TrialTime.
class ReplayLauncher final : public Launcher {
 public:
  // Takes the rows of a study with replayed trials.
  explicit ReplayLauncher(const ResolvedStudy& study);

  // NOT_FOUND for a plan without a row.
  absl::Status Submit(const TrialJob& job) override;
  absl::StatusOr<std::optional<FinishedTrial>> Wait(Seconds limit) override;
  void Cancel(int id) override;

  [[nodiscard]] std::vector<ParallelPlan> Plans() const;  // in canonical order

 private:
  std::map<ParallelPlan, TrialOutcome> outcomes_;
  std::deque<FinishedTrial> ended_;
};

}  // namespace meshwright
