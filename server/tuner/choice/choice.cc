#include "server/tuner/choice/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "search_space/spec/choices.h"
#include "server/tuner/choice/plainness.h"

namespace meshwright {
namespace {

// Plans that fit with at least this probability are equally sure to fit.
constexpr double kSure = 0.99;
// A start that runs out of memory costs as much as so many steps of the plan that runs instead.
constexpr double kFailedStart = 1;
// Standard deviation of the logarithm of a step time that each unmeasured feature adds: assumed.
constexpr double kUnmeasuredSigma = 0.15;
// A plan with such a feature wins only if it is faster with this probability.
constexpr double kSureWin = 0.9;
// Width of the classes of costs in which the more usual plan is preferred: 1 %.
constexpr double kAsLong = 0.01;

// With this probability to tell plans apart, the faster one always wins.
constexpr double kNoTie = 0.5;

class Ranking {
 public:
  Ranking(std::span<const Alternative> alternatives, const ChoiceLimits& limits,
          const KnownPlans& known)
      : alternatives_(alternatives), limits_(limits), known_(known), order_(alternatives.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    FindSafeSteps();
    for (std::size_t i = 0; i < alternatives.size(); ++i) costs_.push_back(CostOf(i));
  }

  Choice Rank() {
    std::ranges::stable_sort(
        order_, {}, [&](std::size_t i) { return std::tuple(has_safe_ && !IsSafe(i), costs_[i]); });
    Choice choice;
    if (!order_.empty()) PreferPlainest(choice);
    choice.order = order_;
    return choice;
  }

 private:
  [[nodiscard]] double Fits(std::size_t i) const {
    return alternatives_[i].estimate.fit_probability;
  }
  [[nodiscard]] bool IsSafe(std::size_t i) const { return Fits(i) >= limits_.min_fit_probability; }
  [[nodiscard]] double Step(std::size_t i) const {
    return alternatives_[i].estimate.step_time.count();
  }

  [[nodiscard]] std::size_t UnmeasuredOf(std::size_t i) const {
    const Alternative& alternative = alternatives_[i];
    return UnmeasuredFeatures(alternative.plan, alternative.sequence_length).size();
  }

  // Finds the two shortest steps of plans that are safe: the plan that runs after a failed start.
  void FindSafeSteps() {
    for (const std::size_t i : order_) {
      if (!IsSafe(i)) continue;
      has_safe_ = true;
      safe_.push_back(i);
    }
    if (!has_safe_) safe_ = order_;
    std::ranges::sort(safe_, {}, [&](std::size_t i) { return Step(i); });
    safe_.resize(std::min<std::size_t>(safe_.size(), 2));
  }

  // Returns the expected time of a step, with the cost of a failed start. Without another plan, a
  // failed start is followed by the same.
  [[nodiscard]] double CostOf(std::size_t i) const {
    if (limits_.min_fit_probability <= 0) return Step(i);  // the request sets no minimum
    const std::size_t next = safe_.front() != i || safe_.size() < 2 ? safe_.front() : safe_.back();
    return Fits(i) * Step(i) + (1 - Fits(i)) * (kFailedStart + 1) * std::max(Step(next), Step(i));
  }

  // Returns true if a plan cannot be told apart from the reference.
  [[nodiscard]] bool IsTied(std::size_t reference, std::size_t i) const {
    const Alternative& a = alternatives_[reference];
    const Alternative& b = alternatives_[i];
    if (b.estimate.step_time > a.estimate.step_time * kMaxTieRatio) return false;
    return FasterProbability(a.estimate.step_time, a.uncertainty, b.estimate.step_time,
                             b.uncertainty) < limits_.tie_probability;
  }

  // Returns true if `a` has more unmeasured features than `b` and yields to it.
  [[nodiscard]] bool Yields(std::size_t a, std::size_t b) const {
    const std::size_t extra = UnmeasuredOf(a);
    if (UnmeasuredOf(b) >= extra || limits_.tie_probability <= kNoTie) return false;
    TimeUncertainty doubtful = alternatives_[a].uncertainty;
    doubtful.noise_variance +=
        static_cast<double>(extra - UnmeasuredOf(b)) * kUnmeasuredSigma * kUnmeasuredSigma;
    return FasterProbability(alternatives_[a].estimate.step_time, doubtful,
                             alternatives_[b].estimate.step_time, alternatives_[b].uncertainty) <
           std::max(kSureWin, limits_.tie_probability);
  }

  // Returns the cheapest of the plans to which the cheapest one yields, those with the fewest
  // unmeasured features, or else the cheapest one itself.
  [[nodiscard]] std::size_t FindReference() const {
    const std::size_t cheapest = order_.front();
    std::size_t reference = cheapest;
    for (const std::size_t i : order_) {
      const bool counts = !has_safe_ || IsSafe(i);
      if (counts && Yields(cheapest, i) && UnmeasuredOf(i) < UnmeasuredOf(reference)) reference = i;
    }
    return reference;
  }

  // Returns false if the choice has yielded to a plan without a feature that this one has: being
  // surer to fit does not bring the feature back. What the user runs has been tried.
  [[nodiscard]] bool MayWin(const Choice& choice, std::size_t i) const {
    return choice.reference == choice.cheapest ||
           UnmeasuredOf(i) <= UnmeasuredOf(choice.reference) || known_.own == alternatives_[i].plan;
  }

  // Moves the plans that are tied with the reference to the front, the safest and plainest first.
  void PreferPlainest(Choice& choice) {
    choice.cheapest = order_.front();
    choice.reference = FindReference();
    reference_cost_ = costs_[choice.reference];
    const auto end = std::stable_partition(order_.begin(), order_.end(), [&](std::size_t i) {
      return (!has_safe_ || IsSafe(i)) && MayWin(choice, i) && IsTied(choice.reference, i);
    });
    std::stable_sort(order_.begin(), end,
                     [&](std::size_t a, std::size_t b) { return MeritsOf(a) < MeritsOf(b); });
    choice.tied_count = static_cast<std::size_t>(end - order_.begin());
    choice.reason = WhyFirst(MeritsOf(order_.front()), MeritsOf(choice.reference));
  }

  // In the order in which they decide between plans that are tied; less is better.
  struct Merits {
    double doubt = 0;  // minus the probability that it fits
    Provenance provenance = Provenance::kMeasured;
    std::size_t unmeasured = 0;
    bool changes_settings = false;
    double distance = 0;  // to the user's own plan
    bool is_unpublished = true;
    double cost_class = 0;
    int unusualness = 0;
    double cost = 0;
    auto operator<=>(const Merits&) const = default;
  };

  [[nodiscard]] Merits MeritsOf(std::size_t i) const {
    const ParallelPlan& plan = alternatives_[i].plan;
    return {.doubt = -std::min(Fits(i), kSure),
            .provenance = alternatives_[i].estimate.provenance,
            .unmeasured = UnmeasuredOf(i),
            .changes_settings = alternatives_[i].changes_settings,
            .distance = known_.own.has_value() ? DistanceOf(plan, *known_.own) : 0,
            .is_unpublished = known_.recipe != plan,
            .cost_class = std::floor(std::log(costs_[i] / reference_cost_) / kAsLong),
            .unusualness = Unusualness(plan),
            .cost = costs_[i]};
  }

  static ChoiceReason WhyFirst(const Merits& first, const Merits& reference) {
    if (first.doubt < reference.doubt) return ChoiceReason::kSurerToFit;
    if (first.provenance < reference.provenance) return ChoiceReason::kBetterFounded;
    if (first.unmeasured < reference.unmeasured) return ChoiceReason::kPlainer;
    if (first.changes_settings < reference.changes_settings) return ChoiceReason::kUsualSettings;
    if (first.distance < reference.distance) return ChoiceReason::kNearerToOwn;
    if (first.is_unpublished < reference.is_unpublished) return ChoiceReason::kPublished;
    return first.unusualness < reference.unusualness ? ChoiceReason::kMoreUsual
                                                     : ChoiceReason::kCheapest;
  }

  std::span<const Alternative> alternatives_;
  const ChoiceLimits& limits_;
  const KnownPlans& known_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> safe_;
  std::vector<double> costs_;
  double reference_cost_ = 1;
  bool has_safe_ = false;
};

}  // namespace

Choice RankChoices(std::span<const Alternative> alternatives, const ChoiceLimits& limits,
                   const KnownPlans& known) {
  return Ranking(alternatives, limits, known).Rank();
}

}  // namespace meshwright
