#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

// A launcher with scripted outcomes, whose jobs take two waits to end.
class FakeLauncher final : public Launcher {
 public:
  explicit FakeLauncher(std::function<TrialOutcome(const ParallelPlan&)> run)
      : run_(std::move(run)) {}

  absl::Status Submit(const TrialJob& job) override {
    if (submitted.size() == fails_at) return absl::UnavailableError("no scheduler");
    submitted.push_back(job.plan);
    times_left.push_back(job.time_left);
    running_ = {.id = job.id, .outcome = run_(job.plan), .time = time};
    waits_ = 0;
    return absl::OkStatus();
  }
  absl::StatusOr<std::optional<FinishedTrial>> Wait(Seconds) override {
    if (++waits_ < 2 || hangs || (hangs_until_cancelled && cancels == 0)) return std::nullopt;
    return running_;
  }
  void Cancel(int) override {
    running_.outcome = Cancelled();
    ++cancels;
  }

  std::vector<ParallelPlan> submitted;
  std::vector<std::optional<Seconds>> times_left;
  std::size_t fails_at = 1000;
  Seconds time = Seconds(100);  // that a job takes
  bool hangs = false;
  bool hangs_until_cancelled = false;
  int cancels = 0;

 private:
  std::function<TrialOutcome(const ParallelPlan&)> run_;
  FinishedTrial running_;
  int waits_ = 0;
};

inline TrialOutcome After(double seconds) { return Ran{.step_time = Seconds(seconds)}; }

}  // namespace meshwright
