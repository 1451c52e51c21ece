#include "server/tuner/trials.h"

#include <utility>

#include "absl/status/statusor.h"

namespace meshwright {
namespace {

constexpr Seconds kPoll(0.1);
constexpr int kCancelPolls = 300;  // half a minute for a cancelled job to end

class Loop {
 public:
  Loop(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options)
      : chooser_(chooser), launcher_(launcher), options_(options) {}

  TrialsRun Run() {
    run_.summary.candidate_count = static_cast<int>(chooser_.candidates().size());
    std::optional<Expectation> next = First();
    while (true) {
      const std::optional<TrialStop> stop = ReasonToStop(next);
      if (stop.has_value()) return End(*stop);
      const absl::StatusOr<std::optional<FinishedTrial>> finished = Try(next->candidate);
      if (!finished.ok()) {
        run_.failure = finished.status();
        return End(TrialStop::kLauncherFailed);
      }
      if (!finished->has_value()) return End(TrialStop::kCancelled);
      Record(*next, **finished);
      next = chooser_.Next();
    }
  }

 private:
  [[nodiscard]] bool IsStopped() const { return options_.should_stop && options_.should_stop(); }

  [[nodiscard]] std::optional<Expectation> First() const {
    return options_.baseline.has_value() ? chooser_.Expect(*options_.baseline) : chooser_.Next();
  }

  [[nodiscard]] std::optional<TrialStop> ReasonToStop(
      const std::optional<Expectation>& next) const {
    const TrialBudget& budget = options_.budget;
    if (IsStopped()) return TrialStop::kCancelled;
    if (!next.has_value()) return TrialStop::kAllTried;
    if (static_cast<int>(run_.tried.size()) >= budget.trials) return TrialStop::kTrialLimit;
    const Seconds time = TrialTime(next->step_time);
    if (budget.device_time.has_value() &&
        run_.summary.device_time + options_.device_count * time > *budget.device_time) {
      return TrialStop::kDeviceTimeLimit;
    }
    if (budget.time.has_value() && run_.summary.time + time > *budget.time) {
      return TrialStop::kTimeLimit;
    }
    if (budget.stop_within.has_value() && chooser_.RemainingGain() <= *budget.stop_within) {
      return TrialStop::kWithinRatio;
    }
    return std::nullopt;
  }

  // Nothing when a cancelled job does not end.
  absl::StatusOr<std::optional<FinishedTrial>> Try(std::size_t candidate) {
    const int id = static_cast<int>(run_.tried.size());
    absl::Status submitted =
        launcher_.Submit({.id = id, .plan = chooser_.candidates()[candidate].plan});
    if (!submitted.ok()) return submitted;
    bool is_cancelled = false;
    for (int polls = 0; polls < kCancelPolls; polls += is_cancelled ? 1 : 0) {
      absl::StatusOr<std::optional<FinishedTrial>> finished = launcher_.Wait(kPoll);
      if (!finished.ok()) return finished;
      // An end that is told late belongs to a job that was given up.
      if (finished->has_value() && (*finished)->id == id) return finished;
      if (is_cancelled || !IsStopped()) continue;
      launcher_.Cancel(id);
      is_cancelled = true;
    }
    return std::nullopt;
  }

  void Record(const Expectation& expected, const FinishedTrial& finished) {
    const Seconds device_time = options_.device_count * finished.time;
    run_.summary.time += finished.time;
    run_.summary.device_time += device_time;
    run_.tried.push_back({.plan = chooser_.candidates()[expected.candidate].plan,
                          .outcome = finished.outcome,
                          .expected_step_time = expected.step_time,
                          .success_probability = expected.success_probability,
                          .device_time = device_time});
    chooser_.Learn(expected.candidate, finished.outcome);
    if (options_.on_trial) options_.on_trial(static_cast<int>(run_.tried.size()), chooser_.best());
  }

  TrialsRun End(TrialStop stop) {
    run_.summary.stop = stop;
    run_.summary.remaining_gain = chooser_.RemainingGain();
    return std::move(run_);
  }

  TrialChooser& chooser_;
  Launcher& launcher_;
  const TrialOptions& options_;
  TrialsRun run_;
};

}  // namespace

TrialsRun RunTrials(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options) {
  return Loop(chooser, launcher, options).Run();
}

}  // namespace meshwright
