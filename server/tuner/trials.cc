#include "server/tuner/trials.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "estimator/interval.h"

namespace meshwright {
namespace {

constexpr Seconds kPoll(0.1);
constexpr int kCancelPolls = 1200;  // two minutes for a cancelled job to end

class Loop {
 public:
  Loop(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options)
      : chooser_(chooser), launcher_(launcher), options_(options) {}

  TrialsRun Run() {
    run_.summary.candidate_count = static_cast<int>(chooser_.candidates().size());
    if (options_.journal != nullptr) Resume(options_.journal->ended);
    std::optional<Expectation> next = First();
    while (true) {
      const std::optional<TrialStop> stop = ReasonToStop(next);
      if (stop.has_value()) return End(*stop);
      const absl::Status begun = Begin(*next);
      if (!begun.ok()) return Fail(TrialStop::kStoreFailed, begun);
      const absl::StatusOr<std::optional<FinishedTrial>> finished = Try(next->candidate);
      if (!finished.ok()) return Fail(TrialStop::kLauncherFailed, finished.status());
      if (!finished->has_value()) return End(TrialStop::kCancelled);
      TriedPlan tried = TriedOf(*next, **finished);
      // What could not be written down is still what was measured.
      const absl::Status ended = Ended(tried);
      Record(next->candidate, std::move(tried));
      if (!ended.ok()) return Fail(TrialStop::kStoreFailed, ended);
      next = chooser_.Next();
    }
  }

 private:
  [[nodiscard]] bool IsStopped() const { return options_.should_stop && options_.should_stop(); }

  [[nodiscard]] bool IsLeft() const {
    return launcher_.OutlivesProcess() && options_.should_leave && options_.should_leave();
  }

  [[nodiscard]] int NextNumber() const { return static_cast<int>(run_.tried.size()) + 1; }

  [[nodiscard]] std::optional<std::size_t> CandidateOf(const ParallelPlan& plan) const {
    const std::vector<RankedPlan>& all = chooser_.candidates();
    const auto found = std::ranges::find(all, plan, &RankedPlan::plan);
    if (found == all.end()) return std::nullopt;
    return static_cast<std::size_t>(found - all.begin());
  }

  // A plan that an earlier program chose, and that is none of this one's, teaches nothing here.
  void Resume(const std::vector<TriedPlan>& ended) {
    for (const TriedPlan& tried : ended) Record(CandidateOf(tried.plan), tried);
  }

  // The open trial of an earlier process was chosen from what has been learnt again by now.
  [[nodiscard]] std::optional<Expectation> First() const {
    if (options_.journal != nullptr && options_.journal->open.has_value()) {
      const std::optional<std::size_t> open = CandidateOf(*options_.journal->open);
      if (open.has_value()) return chooser_.Expect(*open);
    }
    const bool is_first = run_.tried.empty();
    if (options_.baseline.has_value() && is_first) return chooser_.Expect(*options_.baseline);
    return chooser_.Next();
  }

  // Tried for another reason than what is expected of it.
  [[nodiscard]] bool IsGiven(std::size_t candidate) const {
    if (options_.baseline == candidate) return true;
    return options_.journal != nullptr &&
           options_.journal->open == chooser_.candidates()[candidate].plan;
  }

  absl::Status Begin(const Expectation& next) const {
    if (options_.journal == nullptr || !options_.journal->begin) return absl::OkStatus();
    const RankedPlan& candidate = chooser_.candidates()[next.candidate];
    const double spread = std::exp(kCentral80 * next.log_sigma);
    return options_.journal->begin({.number = NextNumber(),
                                    .plan = candidate.plan,
                                    .step_time = next.step_time,
                                    .step_time_low = next.step_time / spread,
                                    .step_time_high = next.step_time * spread,
                                    .peak_memory = candidate.estimate.peak_memory,
                                    .success_probability = next.success_probability});
  }

  [[nodiscard]] absl::Status Ended(const TriedPlan& tried) const {
    if (options_.journal == nullptr || !options_.journal->end) return absl::OkStatus();
    return options_.journal->end(NextNumber(), tried);
  }

  TrialsRun Fail(TrialStop stop, const absl::Status& failure) {
    run_.failure = failure;
    return End(stop);
  }

  [[nodiscard]] std::optional<TrialStop> ReasonToStop(
      const std::optional<Expectation>& next) const {
    const TrialBudget& budget = options_.budget;
    if (IsStopped()) return TrialStop::kCancelled;
    if (!next.has_value()) return TrialStop::kAllTried;
    if (options_.skips_ruled_out && !IsGiven(next->candidate) &&
        chooser_.RuledOutBy(next->candidate).has_value()) {
      return TrialStop::kRestRuledOut;
    }
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

  // Nothing when a cancelled job does not end, or one is left running.
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
      if (IsLeft()) return std::nullopt;
      if (is_cancelled || !IsStopped()) continue;
      launcher_.Cancel(id);
      is_cancelled = true;
    }
    return std::nullopt;
  }

  [[nodiscard]] TriedPlan TriedOf(const Expectation& expected,
                                  const FinishedTrial& finished) const {
    return {.plan = chooser_.candidates()[expected.candidate].plan,
            .outcome = finished.outcome,
            .expected_step_time = expected.step_time,
            .success_probability = expected.success_probability,
            .device_time = options_.device_count * finished.time,
            .failure_class = finished.failure_class,
            .failure_message = finished.failure_message};
  }

  void Record(std::optional<std::size_t> candidate, TriedPlan tried) {
    run_.summary.device_time += tried.device_time;
    run_.summary.time += tried.device_time / options_.device_count;
    if (candidate.has_value()) chooser_.Learn(*candidate, tried.outcome);
    run_.tried.push_back(std::move(tried));
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
