#include "server/tuner/trials/trial_chooser.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "estimator/learning/interval.h"
#include "estimator/learning/normal.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

// Set by hand: the deviation of neighbours and a plan's own have equal parts; together with the
// part that all plans share, it is as wide as a cold estimate's interval. docs/replay/measured.md
// has results on measured groups.
constexpr ResidualSpread kTimeSpread = {.all = 0.1, .neighbours = 0.05, .own = 0.05};
// Memory's interval of 0.05, split in the same way.
constexpr ResidualSpread kMemorySpread = {.all = 0.045, .neighbours = 0.015, .own = 0.015};

// Before anything ran, a plan's gain is its saving compared with this many times the fastest plan's
// time: a first trial that fails leaves the user with nothing.
constexpr double kNothingYet = 4;
// Probabilities of running: above the first a plan counts as likely to run, and below the second it
// is not worth a trial.
constexpr double kLikely = 0.5;
constexpr double kWorthATrial = 0.05;
// Number of standard deviations below the expectation that counts as optimistic.
constexpr double kOptimism = 2;
// After each series of this many trials without a new best, the next trial is a plan whose likeness
// to all tried plans is below kUnlike. If the model is wrong about a whole kind of plans, expected
// gain only leads to neighbours of its first choices (docs/replay/simulated.md).
constexpr int kPatience = 4;
constexpr double kUnlike = 0.3;
// A plan with at least the modelled memory of one that ran out of memory is tried last.
constexpr double kRanOutProbability = 1e-6;
constexpr double kLeastProbability = 1e-9;

// Number of standard deviations below its expectation that no plan is assumed to exceed. With it,
// the best plans of 88 measured groups are kept (docs/pruning/measured.md).
constexpr double kBeyondDoubt = 5;
constexpr double kSurelyOversized = 0.01;

double Cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

Seconds Optimistic(const Expectation& expected) {
  return expected.step_time * std::exp(-kOptimism * expected.log_sigma);
}

std::vector<PlanFeatures> AllFeatures(const std::vector<RankedPlan>& candidates, int layer_count) {
  std::vector<PlanFeatures> features;
  features.reserve(candidates.size());
  for (const RankedPlan& candidate : candidates) {
    features.push_back(FeaturesOf(candidate.plan, layer_count));
  }
  return features;
}

}  // namespace

TrialChooser::TrialChooser(std::vector<RankedPlan> candidates, int layer_count,
                           std::vector<std::string> disabled_rules)
    : candidates_(std::move(candidates)),
      layer_count_(layer_count),
      disabled_rules_(std::move(disabled_rules)),
      features_(AllFeatures(candidates_, layer_count)),
      time_(features_, kTimeSpread),
      memory_(features_, kMemorySpread),
      tried_(candidates_.size(), false) {}

double TrialChooser::FitProbability(std::size_t candidate) const {
  const Estimate& estimate = candidates_[candidate].estimate;
  if (IsOn(kHistoryRule) && HasRunOut(candidate)) return kRanOutProbability;
  if (memory_.observation_count() == 0) return estimate.fit_probability;
  const Normal residual = memory_.At(candidate);
  const double probability = ProbabilityBelow(
      static_cast<double>(estimate.reserved_memory.count) * std::exp(residual.mean),
      static_cast<double>(estimate.memory_capacity.count), std::sqrt(residual.variance));
  const bool is_contradicted = IsOn(kHistoryRule) && IsContradicted(candidate);
  return is_contradicted ? std::min(probability, estimate.fit_probability) : probability;
}

std::optional<std::size_t> TrialChooser::SmallestOutOfMemory() const {
  std::optional<std::size_t> smallest;
  const auto size = [&](std::size_t i) { return candidates_[i].estimate.reserved_memory; };
  for (const std::size_t i : out_of_memory_) {
    if (size(i) <= largest_run_) continue;
    if (!smallest.has_value() || size(i) < size(*smallest)) smallest = i;
  }
  return smallest;
}

bool TrialChooser::HasRunOut(std::size_t candidate) const {
  const std::optional<std::size_t> failed = SmallestOutOfMemory();
  return failed.has_value() && candidates_[candidate].estimate.reserved_memory >=
                                   candidates_[*failed].estimate.reserved_memory;
}

// Returns true if a plan of the candidate's modelled size ran out of memory in the history and no
// plan of that size has run since.
bool TrialChooser::IsContradicted(std::size_t candidate) const {
  const Estimate& estimate = candidates_[candidate].estimate;
  return !estimate.fits && estimate.reserved_memory <= estimate.memory_capacity &&
         estimate.reserved_memory > largest_run_;
}

Seconds TrialChooser::LeastTime(std::size_t candidate) const {
  const Expectation expected = Expect(candidate);
  return expected.step_time * std::exp(-kBeyondDoubt * expected.log_sigma);
}

std::optional<std::string_view> TrialChooser::RuledOutBy(std::size_t candidate) const {
  if (!best_.has_value()) return std::nullopt;
  const bool has_run_out = HasRunOut(candidate) || IsContradicted(candidate);
  if (IsOn(kHistoryRule) && has_run_out) return kHistoryRule;
  if (IsOn(kMemoryRule) && FitProbability(candidate) < kSurelyOversized) return kMemoryRule;
  if (IsOn(kBoundRule) && LeastTime(candidate) > best_->step_time) return kBoundRule;
  return std::nullopt;
}

bool TrialChooser::IsOn(std::string_view rule) const { return IsRuleOn(rule, disabled_rules_); }

Expectation TrialChooser::Expect(std::size_t candidate) const {
  const Normal residual = time_.At(candidate);
  double like_ran = 0;
  double like_failed = 0;
  for (const std::size_t i : ran_) like_ran += Likeness(features_[candidate], features_[i]);
  for (const std::size_t i : failed_) like_failed += Likeness(features_[candidate], features_[i]);
  // Laplace's rule with one successful run, weighted by likeness.
  const double runs = (1 + like_ran) / (1 + like_ran + like_failed);
  return {.candidate = candidate,
          .step_time = candidates_[candidate].estimate.step_time * std::exp(residual.mean),
          .log_sigma = std::sqrt(residual.variance),
          .success_probability = std::max(kLeastProbability, FitProbability(candidate) * runs)};
}

// Returns the time that plans are compared with.
Seconds TrialChooser::Incumbent(const std::vector<Expectation>& open) const {
  if (best_.has_value()) return best_->step_time;
  std::optional<Seconds> fastest;
  std::optional<Seconds> fastest_likely;
  for (const Expectation& e : open) {
    fastest = std::min(fastest.value_or(e.step_time), e.step_time);
    if (e.success_probability <= kLikely) continue;
    fastest_likely = std::min(fastest_likely.value_or(e.step_time), e.step_time);
  }
  return kNothingYet * fastest_likely.value_or(fastest.value_or(Seconds(0)));
}

// Returns the expected improvement of a log-normal time (Jones et al. 1998, on the logarithm), in
// seconds of a step per second that the trial is expected to take.
double TrialChooser::ExpectedGain(const Expectation& expected, Seconds incumbent) const {
  const double sigma = expected.log_sigma;
  const double mean = expected.step_time.count() * std::exp(sigma * sigma / 2);
  const double z = std::log(incumbent / expected.step_time) / sigma;
  const double saved = incumbent.count() * Cdf(z) - mean * Cdf(z - sigma);
  const double success = expected.success_probability;
  return success * std::max(0.0, saved) / TrialTime(success * expected.step_time).count();
}

// Returns true if the plan may be the best and resembles none of the tried ones.
bool TrialChooser::IsUnexplored(const Expectation& expected, Seconds incumbent) const {
  if (expected.success_probability < kWorthATrial) return false;
  if (Optimistic(expected) >= incumbent) return false;
  const PlanFeatures& features = features_[expected.candidate];
  return std::ranges::none_of(learnt_, [&](const auto& trial) {
    return Likeness(features, features_[trial.first]) >= kUnlike;
  });
}

// Returns the number of consecutive trials without a new best. Outcomes learnt before the first
// trial, and those that prove nothing, do not count.
int TrialChooser::TrialsWithoutGain() const {
  int count = 0;
  std::optional<Seconds> best;
  for (std::size_t i = 0; i < learnt_.size(); ++i) {
    const TrialOutcome& outcome = learnt_[i].second;
    const Ran* const run = std::get_if<Ran>(&outcome);
    if (run != nullptr && (!best.has_value() || run->step_time < *best)) {
      best = run->step_time;
      count = 0;
    } else if (i >= first_trial_ && !std::holds_alternative<Cancelled>(outcome)) {
      ++count;
    }
  }
  return count;
}

std::optional<Expectation> TrialChooser::Next() const {
  std::vector<Expectation> open;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!tried_[i]) open.push_back(Expect(i));
  }
  if (open.empty()) return std::nullopt;
  const Seconds incumbent = Incumbent(open);
  const int without_gain = TrialsWithoutGain();
  const bool explores = best_.has_value() && without_gain > 0 && without_gain % kPatience == 0;
  // If the expected gains are too small for a double, the order is by time.
  const auto rank = [&](const Expectation& e) {
    const bool is_open = !RuledOutBy(e.candidate).has_value();
    const bool is_preferred = explores && IsUnexplored(e, incumbent);
    return std::tuple(is_open, is_preferred, ExpectedGain(e, incumbent), -e.step_time.count());
  };
  std::vector<decltype(rank(open.front()))> ranks;
  ranks.reserve(open.size());
  for (const Expectation& e : open) ranks.push_back(rank(e));
  return open[static_cast<std::size_t>(std::ranges::max_element(ranks) - ranks.begin())];
}

// Takes the memory that the plan is expected to have needed, since it was more than the device has,
// for measured.
void TrialChooser::ObserveLackOfMemory(std::size_t candidate) {
  const Estimate& estimate = candidates_[candidate].estimate;
  const double least = std::log(estimate.memory_capacity / estimate.reserved_memory);
  memory_.Observe(candidate, Bounded(memory_.At(candidate), least, std::nullopt).mean);
}

void TrialChooser::Reconsider(std::vector<RankedPlan> candidates) {
  const auto learnt = std::move(learnt_);
  const std::size_t first_trial = first_trial_;
  *this = TrialChooser(std::move(candidates), layer_count_, std::move(disabled_rules_));
  for (const auto& [candidate, outcome] : learnt) Learn(candidate, outcome);
  first_trial_ = first_trial;
}

void TrialChooser::Learn(std::size_t candidate, const TrialOutcome& outcome) {
  learnt_.emplace_back(candidate, outcome);
  tried_[candidate] = true;
  const Estimate& estimate = candidates_[candidate].estimate;
  switch (OutcomeOf(outcome)) {
    case Outcome::kOk: {
      const Ran& run = std::get<Ran>(outcome);
      time_.Observe(candidate, std::log(run.step_time / estimate.step_time));
      if (run.peak_memory.has_value()) {
        memory_.Observe(candidate, std::log(*run.peak_memory / estimate.peak_memory));
      }
      ran_.push_back(candidate);
      largest_run_ = std::max(largest_run_, estimate.reserved_memory);
      if (!best_.has_value() || run.step_time < best_->step_time) {
        best_ = {.candidate = candidate, .step_time = run.step_time};
      }
      return;
    }
    case Outcome::kOom:
      out_of_memory_.push_back(candidate);
      ObserveLackOfMemory(candidate);
      return;
    case Outcome::kCrash:
    case Outcome::kHang:
    case Outcome::kTimeout:
      failed_.push_back(candidate);
      return;
    case Outcome::kCancelled:
      return;
  }
}

std::optional<Seconds> TrialChooser::LeastOptimistic() const {
  std::optional<Seconds> least;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (tried_[i]) continue;
    const Expectation e = Expect(i);
    if (e.success_probability < kWorthATrial) continue;
    least = std::min(least.value_or(Optimistic(e)), Optimistic(e));
  }
  return least;
}

double TrialChooser::RemainingGain() const {
  if (!best_.has_value()) return 1;
  const std::optional<Seconds> optimistic = LeastOptimistic();
  return optimistic.has_value() ? std::max(0.0, 1 - *optimistic / best_->step_time) : 0;
}

}  // namespace meshwright
