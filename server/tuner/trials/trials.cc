#include "server/tuner/trials/trials.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "estimator/learning/interval.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/trials/trial_repeats.h"

namespace meshwright {
namespace {

constexpr Seconds kPoll(0.1);
constexpr int kCancelPolls = 1200;  // a cancelled job has two minutes to end

class Loop {
 public:
  Loop(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options)
      : chooser_(chooser), launcher_(launcher), options_(options), repeats_(options.repeats) {
    repeats_.interleaves_baseline &= options.baseline.has_value();
  }

  TrialsRun Run() {
    run_.summary.candidate_count = static_cast<int>(chooser_.candidates().size());
    if (options_.journal != nullptr) {
      again_ = options_.journal->again;
      Resume(*options_.journal);
    }
    std::optional<Expectation> next = First();
    while (true) {
      std::optional<TrialStop> stop = ReasonToStop(next);
      if (stop.has_value()) return End(*stop == TrialStop::kCancelled ? *stop : Confirm(*stop));
      stop = RunDue(*next);
      if (stop.has_value()) return End(*stop);
      next = Next();
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

  // Resumes an earlier process's trials. A plan that an earlier version of the program chose and
  // that is not a candidate here teaches nothing.
  void Resume(const TrialJournal& journal) {
    std::optional<ParallelPlan> first = journal.open;
    if (!journal.ended.empty()) first = journal.ended.front().plan;
    // Another version of the program may have had another baseline.
    const bool had_other = first.has_value() && CandidateOf(*first) != options_.baseline &&
                           !IsAgain(options_.baseline);
    repeats_.interleaves_baseline &= !had_other;
    for (const TriedPlan& tried : journal.ended) Record(CandidateOf(tried.plan), tried);
  }

  // Returns the open trial of an earlier process, if any. The outcomes that led to it have been
  // replayed by now. A baseline that is due comes before it.
  [[nodiscard]] std::optional<Expectation> First() {
    const bool is_open = options_.journal != nullptr && options_.journal->open.has_value();
    if (is_open && !IsReferenceDue(run_.tried, repeats_)) {
      const std::optional<std::size_t> open = CandidateOf(*options_.journal->open);
      if (open.has_value()) return chooser_.Expect(*open);
    }
    const bool is_first = run_.tried.empty();
    if (options_.baseline.has_value() && is_first) return chooser_.Expect(*options_.baseline);
    return Next();
  }

  // Returns the next trial that is to run again, or else the chooser's choice.
  [[nodiscard]] std::optional<Expectation> Next() {
    while (!again_.empty()) {
      const std::optional<std::size_t> candidate = CandidateOf(again_.front());
      const bool has_run =
          std::ranges::find(run_.tried, again_.front(), &TriedPlan::plan) != run_.tried.end();
      if (candidate.has_value() && !has_run) return chooser_.Expect(*candidate);
      again_.erase(again_.begin());
    }
    return chooser_.Next();
  }

  [[nodiscard]] bool IsAgain(std::optional<std::size_t> candidate) const {
    return candidate.has_value() &&
           std::ranges::find(again_, chooser_.candidates()[*candidate].plan) != again_.end();
  }

  // Returns true if the plan is tried for another reason than its expectation.
  [[nodiscard]] bool IsGiven(std::size_t candidate) const {
    if (options_.baseline == candidate || IsAgain(candidate)) return true;
    return options_.journal != nullptr &&
           options_.journal->open == chooser_.candidates()[candidate].plan;
  }

  // Runs the baseline if it is due, or else `next`. Returns the reason if the trials end with it.
  std::optional<TrialStop> RunDue(const Expectation& next) {
    return IsReferenceDue(run_.tried, repeats_) ? RunOne(Reference()) : RunOne(next);
  }

  std::optional<TrialStop> RunOne(Expectation next) {
    next.step_time *= SlownessNow(run_.tried, repeats_);
    const absl::Status begun = Begin(next);
    if (!begun.ok()) return Fail(TrialStop::kStoreFailed, begun);
    const absl::StatusOr<std::optional<FinishedTrial>> finished = Try(next.candidate);
    if (!finished.ok()) return Fail(TrialStop::kLauncherFailed, finished.status());
    if (!finished->has_value()) return TrialStop::kCancelled;
    TriedPlan tried = TriedOf(next, **finished);
    // A result that could not be recorded is still a measurement.
    const absl::Status ended = Ended(tried);
    Record(next.candidate, std::move(tried));
    if (!ended.ok()) return Fail(TrialStop::kStoreFailed, ended);
    return std::nullopt;
  }

  // Confirms the fastest plans after the trials have stopped for the reason `stop`. That stays the
  // reason unless everything is stopped meanwhile.
  TrialStop Confirm(TrialStop stop) {
    while (const auto plan = NextToConfirm(OfCandidates(), repeats_)) {
      if (IsStopped()) return TrialStop::kCancelled;
      const Expectation next = chooser_.Expect(*CandidateOf(*plan));
      run_.confirming_limit = LimitBefore(next);
      if (run_.confirming_limit.has_value()) return stop;
      if (const auto ended = RunDue(next)) return *ended;
    }
    return stop;
  }

  // Returns the trials whose plans are candidates of this program.
  [[nodiscard]] std::vector<TriedPlan> OfCandidates() const {
    std::vector<TriedPlan> tried = run_.tried;
    std::erase_if(tried, [this](const TriedPlan& t) { return !CandidateOf(t.plan).has_value(); });
    return tried;
  }

  [[nodiscard]] Expectation Reference() const { return chooser_.Expect(*options_.baseline); }

  absl::Status Begin(const Expectation& next) const {
    if (options_.journal == nullptr || !options_.journal->begin) return absl::OkStatus();
    const RankedPlan& candidate = chooser_.candidates()[next.candidate];
    const double spread = std::exp(kCentral80 * next.log_sigma);
    const TrialRole role = RoleOf(candidate.plan, Cancelled(), run_.tried, repeats_);
    return options_.journal->begin({.number = NextNumber(),
                                    .purpose = role.purpose,
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

  TrialStop Fail(TrialStop stop, const absl::Status& failure) {
    run_.failure = failure;
    return stop;
  }

  // Returns the time budget that the trial, with what runs before it, is expected to exceed.
  [[nodiscard]] std::optional<TrialStop> LimitBefore(const Expectation& next) const {
    const TrialBudget& budget = options_.budget;
    Seconds time = TrialTime(next.step_time);
    if (IsReferenceDue(run_.tried, repeats_)) time += TrialTime(Reference().step_time);
    if (budget.device_time.has_value() &&
        run_.summary.device_time + options_.device_count * time > *budget.device_time) {
      return TrialStop::kDeviceTimeLimit;
    }
    if (budget.time.has_value() && run_.summary.time + time > *budget.time) {
      return TrialStop::kTimeLimit;
    }
    return std::nullopt;
  }

  // Returns nullopt if no budget limits the time.
  [[nodiscard]] std::optional<Seconds> TimeLeft() const {
    const TrialBudget& budget = options_.budget;
    std::optional<Seconds> left;
    if (budget.device_time.has_value()) {
      left = (*budget.device_time - run_.summary.device_time) / options_.device_count;
    }
    if (budget.time.has_value()) {
      const Seconds own = *budget.time - run_.summary.time;
      left = std::min(left.value_or(own), own);
    }
    return left;
  }

  [[nodiscard]] int SearchCount() const {
    return static_cast<int>(
        std::ranges::count(run_.tried, TrialPurpose::kSearch, &TriedPlan::purpose));
  }

  [[nodiscard]] bool IsWithinRatio() const {
    const double ratio = options_.budget.stop_within.value_or(0);
    return ratio > 0 && chooser_.RemainingGain() <= ratio;
  }

  [[nodiscard]] std::optional<TrialStop> ReasonToStop(
      const std::optional<Expectation>& next) const {
    const TrialBudget& budget = options_.budget;
    if (IsStopped()) return TrialStop::kCancelled;
    if (!next.has_value()) return TrialStop::kAllTried;
    const bool is_given = IsGiven(next->candidate);
    if (options_.skips_ruled_out && !is_given && chooser_.RuledOutBy(next->candidate).has_value()) {
      return TrialStop::kRestRuledOut;
    }
    if (SearchCount() >= budget.trials) return TrialStop::kTrialLimit;
    if (const auto limit = LimitBefore(*next)) return limit;
    if (!is_given && IsWithinRatio()) return TrialStop::kWithinRatio;
    return std::nullopt;
  }

  // Returns nullopt if a cancelled job does not end or a job is left running.
  absl::StatusOr<std::optional<FinishedTrial>> Try(std::size_t candidate) {
    const int id = static_cast<int>(run_.tried.size());
    absl::Status submitted = launcher_.Submit(
        {.id = id, .plan = chooser_.candidates()[candidate].plan, .time_left = TimeLeft()});
    if (!submitted.ok()) return submitted;
    bool is_cancelled = false;
    for (int polls = 0; polls < kCancelPolls; polls += is_cancelled ? 1 : 0) {
      absl::StatusOr<std::optional<FinishedTrial>> finished = launcher_.Wait(kPoll);
      if (!finished.ok()) return finished;
      // An end that arrives late belongs to a job that was given up.
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
            .failure_message = finished.failure_message,
            .suspect_reasons = finished.suspect_reasons,
            .environment_digest = finished.environment_digest};
  }

  void Record(std::optional<std::size_t> candidate, TriedPlan tried) {
    run_.summary.device_time += tried.device_time;
    run_.summary.time += tried.device_time / options_.device_count;
    const TrialRole role = RoleOf(tried.plan, tried.outcome, run_.tried, repeats_);
    tried.purpose = role.purpose;
    tried.reference_step_time = role.reference_step_time;
    const bool is_known = std::ranges::any_of(run_.tried, [&](const TriedPlan& earlier) {
      return earlier.plan == tried.plan && !std::holds_alternative<Cancelled>(earlier.outcome);
    });
    run_.tried.push_back(std::move(tried));
    if (candidate.has_value() && !is_known) {
      chooser_.Learn(*candidate, Judged(run_.tried.back(), run_.tried));
    }
    if (options_.reconsider) {
      if (auto anew = options_.reconsider(run_.tried)) chooser_.Reconsider(*std::move(anew));
    }
    if (options_.on_trial) options_.on_trial(SearchCount(), chooser_.best());
  }

  TrialsRun End(TrialStop stop) {
    run_.summary.stop = stop;
    run_.summary.remaining_gain = chooser_.RemainingGain();
    run_.summary.best = chooser_.best();
    run_.summary.optimistic = chooser_.LeastOptimistic();
    return std::move(run_);
  }

  TrialChooser& chooser_;
  Launcher& launcher_;
  const TrialOptions& options_;
  TrialRepeats repeats_;
  std::vector<ParallelPlan> again_;  // what is left of the journal's
  TrialsRun run_;
};

}  // namespace

TrialsRun RunTrials(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options) {
  chooser.BeginTrials();
  return Loop(chooser, launcher, options).Run();
}

}  // namespace meshwright
