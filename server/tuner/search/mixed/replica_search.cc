#include "server/tuner/search/mixed/replica_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/model/replica_ring.h"
#include "estimator/model/stage.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/mixed/batch_shares.h"
#include "server/tuner/search/mixed/layer_splits.h"
#include "server/tuner/search/mixed/replica_prices.h"

namespace meshwright {
namespace {

constexpr std::size_t kMostPools = 8;
constexpr std::size_t kProbedOptions = 8;  // of each pool, combined first for a plan to begin with
// Partial splits of a combination that is slower than another mix in any case.
constexpr std::int64_t kNodesOfSlower = 2000;
constexpr int kCombinationsBetweenStops = 16;
// Each range of bounds in which divisions of the batch are looked at is wider by this factor.
constexpr double kWiden = 1.05;

// A way to use a pool.
struct Option {
  ReplicaDegrees degrees = {};
  SharingGroup sharing = {};
  double rate = 0;                         // upper bound of the samples a second
  std::optional<Seconds> least_tail = {};  // infinite: nothing fits
};

// One option for each pool.
struct Combination {
  Seconds pipeline = Seconds(0);  // lower bound of the longest
  Seconds least = Seconds(0);     // lower bound of pipeline and tail
  std::size_t shared = 0;
  std::array<Option*, kMostPools> options = {};  // in the order of the pools
};

class ReplicaSearcher {
 public:
  ReplicaSearcher(const Problem& problem, ReplicaSpace& space, const MixedSpace& mixed,
                  AnalyticModel& model, const SetLimits& limits)
      : problem_(problem),
        space_(space),
        mixed_(mixed),
        model_(model),
        limits_(limits),
        nodes_left_(limits.nodes) {}

  SetFound Run(const std::vector<int>& pools, std::optional<Seconds> mix) {
    found_.pools = pools;
    mix_ = mix;
    const std::size_t count = space_.shared().size();
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<double> rates;
    for (std::size_t shared = 0; shared < count; ++shared) {
      rates.push_back(FastestRate(shared, 0));
      CountPlans(shared);
    }
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t shared) { return rates[shared]; });
    for (const bool probes : {true, false}) {
      for (const std::size_t shared : order) {
        if (!found_.stopped.has_value()) Search(shared, probes);
      }
    }
    return std::move(found_);
  }

 private:
  [[nodiscard]] const SharedByReplicas& Shared(std::size_t shared) const {
    return space_.shared()[shared];
  }
  [[nodiscard]] int Batch() const { return problem_.workload.global_batch_size; }
  // Returns the longest pipeline and tail that are of use.
  [[nodiscard]] Seconds UsefulTime() const {
    if (!found_.best.has_value()) return Seconds(std::numeric_limits<double>::max());
    return (1 - kEqualShare) * found_.best->estimate.step_time /
               LeastTimeRatio(model_.calibration()) -
           problem_.profile.fixed_per_step;
  }

  // Returns the pipeline and tail of plans that are as fast as the other mix.
  [[nodiscard]] Seconds FastestMix() const {
    if (!mix_.has_value()) return Seconds(std::numeric_limits<double>::max());
    return *mix_ / LeastTimeRatio(model_.calibration()) - problem_.profile.fixed_per_step;
  }

  // Leaves out plans whose pipeline and tail take at least `time`.
  void LeaveOut(Seconds time) {
    const Seconds least = (1 - kEqualShare) * LeastTimeRatio(model_.calibration()) *
                          (time + problem_.profile.fixed_per_step);
    found_.least_left_out = std::min(found_.least_left_out.value_or(least), least);
  }

  bool IsStopped() {
    if (!limits_.stop || ++steps_ % kCombinationsBetweenStops != 0) return false;
    found_.stopped = limits_.stop();
    return found_.stopped.has_value();
  }

  // Returns all ways to use a pool beside the shared choices, the fastest first.
  std::vector<Option>& OptionsOf(int pool, std::size_t shared) {
    const auto [entry, is_new] = options_.try_emplace({pool, shared});
    std::vector<Option>& options = entry->second;
    if (!is_new) return options;
    const int layers = problem_.model.layer_count;
    for (const ReplicaDegrees& degrees : space_.DegreesOf(pool, Shared(shared))) {
      if (space_.NeedsEqualShapes() && layers % degrees.stages != 0) continue;
      const LeastLayerTime layer = LayerTimeOf(degrees, shared);
      Option& option = options.emplace_back();
      option.degrees = degrees;
      const int largest = (layers + degrees.stages - 1) / degrees.stages;
      option.sharing = {.samples = degrees.replicas * degrees.micro_batch_size,
                        .work = std::max(largest * layer.both, layer.all / degrees.stages),
                        .all = layer.all,
                        .forward = layer.forward,
                        .stages = degrees.stages};
      option.rate = option.sharing.samples / option.sharing.work.count();
    }
    std::ranges::stable_sort(options, std::ranges::greater(), &Option::rate);
    return options;
  }

  struct LeastLayerTime {
    Seconds both = Seconds(0);  // passes
    Seconds all = Seconds(0);   // of the whole model
    double forward = 0;
  };
  // Times of layers depend on neither the number of stages nor the sharding of states, but for
  // whether there is a pipeline.
  LeastLayerTime LayerTimeOf(const ReplicaDegrees& degrees, std::size_t shared) {
    ReplicaDegrees key = degrees;
    key.stages = std::min(2, degrees.stages);
    key.replicas = 1;
    SharedDegrees choices = Shared(shared).degrees;
    choices.zero_stage = 0;
    auto& known = layers_[key];
    for (const auto& [other, time] : known) {
      if (other == choices) return time;
    }
    const StagePrices prices({.plan = FlatPlanOf(choices, key.stages, problem_),
                              .stage = StageOf(degrees, problem_),
                              .recompute = choices.recompute},
                             model_);
    const LeastLayerTime time = {.both = prices.LeastLayer(),
                                 .all = prices.LeastOfAll(problem_.model.layer_count),
                                 .forward = prices.MostForward()};
    known.emplace_back(choices, time);
    return time;
  }

  // Returns the sum of the best rates of the pools from `depth` on; 0 if one of them has no option.
  double FastestRate(std::size_t shared, std::size_t depth) {
    double rate = 0;
    for (std::size_t i = depth; i < found_.pools.size(); ++i) {
      const std::vector<Option>& options = OptionsOf(found_.pools[i], shared);
      if (options.empty()) return 0;
      rate += options.front().rate;
    }
    return rate;
  }

  // Counts the plans with these shared choices: the ways to reach the batch, pool by pool.
  void CountPlans(std::size_t shared) {
    const auto batch = static_cast<std::size_t>(Batch());
    std::vector<double> ways;
    for (const int pool : found_.pools) {
      std::vector<double> own(batch + 1, 0);
      for (const Option& option : OptionsOf(pool, shared)) {
        const auto splits = static_cast<double>(mixed_.SplitCount(option.degrees.stages));
        const auto samples = static_cast<std::size_t>(option.sharing.samples);
        for (std::size_t sum = samples; sum <= batch; sum += samples) own[sum] += splits;
      }
      const bool is_last = pool == found_.pools.back();
      if (pool == found_.pools.front()) {
        ways = std::move(own);
        continue;
      }
      std::vector<double> longer(batch + 1, 0);
      for (std::size_t sum = is_last ? batch : 0; sum <= batch; ++sum) {
        for (std::size_t part = 1; part <= sum; ++part) {
          if (own[part] > 0) longer[sum] += own[part] * ways[sum - part];
        }
      }
      ways = std::move(longer);
    }
    const double plans = static_cast<double>(found_.space_count) + ways[batch];
    found_.space_count = plans < static_cast<double>(kManyPlans)
                             ? static_cast<std::int64_t>(plans + 0.5)
                             : kManyPlans;
  }

  // Searches all combinations, or probes those of the fastest options of each pool.
  void Search(std::size_t shared, bool probes) {
    listed_.clear();
    Combination combination = {.shared = shared};
    List({}, probes, combination);
    std::ranges::stable_sort(listed_, {}, &Combination::least);
    for (const Combination& listed : listed_) {
      if (listed.least >= UsefulTime()) return;
      if (IsStopped()) {
        LeaveOut(listed.least);
        return;
      }
      Open(listed, probes);
    }
  }

  // The groups of a combination so far.
  struct Flow {
    double rate = 0;
    std::vector<SharingGroup> groups = {};
  };

  void List(const Flow& flow, bool probes, Combination& combination) {
    const std::size_t most = probes ? kProbedOptions : std::numeric_limits<std::size_t>::max();
    const std::size_t depth = flow.groups.size();
    const std::size_t shared = combination.shared;
    if (depth == found_.pools.size()) {
      combination.pipeline = LeastShared(flow.groups, Batch());
      combination.least = combination.pipeline;
      Seconds tail(0);  // found last, because it takes longest to find
      for (std::size_t i = 0; i < found_.pools.size(); ++i) {
        if (combination.least >= UsefulTime()) return;
        tail = std::max(tail, LeastTailOf(*combination.options[i], shared));
        combination.least = combination.pipeline + tail;
      }
      if (combination.least >= UsefulTime() || !MakesADifference(combination)) return;
      if (listed_.size() < limits_.shapes) {
        listed_.push_back(combination);
      } else {
        LeaveOut(combination.least);
      }
      return;
    }
    const double rest = FastestRate(shared, depth + 1);
    if (depth + 1 < found_.pools.size() && rest == 0) return;
    std::size_t taken = 0;
    for (Option& option : OptionsOf(found_.pools[depth], shared)) {
      const Seconds least(Batch() / (flow.rate + option.rate + rest));
      if (taken == most || least >= UsefulTime()) return;
      if (space_.NeedsEqualShapes() && depth > 0 &&
          !HaveEqualShapes(combination.options[0]->degrees, option.degrees)) {
        continue;
      }
      // A probe combines options that fit.
      if (probes && least + LeastTailOf(option, shared) >= UsefulTime()) continue;
      ++taken;
      combination.options[depth] = &option;
      Flow longer = flow;
      longer.rate += option.rate;
      longer.groups.push_back(option.sharing);
      List(longer, probes, combination);
    }
  }

  // Returns false for a kind of context parallelism that no group has, unless it is the first.
  [[nodiscard]] bool MakesADifference(const Combination& combination) const {
    const ContextParallelKind kind = Shared(combination.shared).degrees.context_parallel_kind;
    if (kind == problem_.space.context_parallel_kinds.front()) return true;
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      if (combination.options[i]->degrees.context_parallel > 1) return true;
    }
    return false;
  }

  // Returns a lower bound of the tails of an option whatever it is combined with, which is infinite
  // if it never fits.
  Seconds LeastTailOf(Option& option, std::size_t shared) {
    if (option.least_tail.has_value()) return *option.least_tail;
    const ReplicaRing ring = LeastRingOf(option.degrees);
    ReplicaPrices prices(Shared(shared), option.degrees, ring, problem_, model_);
    option.least_tail =
        prices.MayFit() ? prices.LeastTail() : Seconds(std::numeric_limits<double>::infinity());
    return *option.least_tail;
  }

  ReplicaRing LeastRingOf(const ReplicaDegrees& degrees) {
    ReplicaDegrees key = degrees;
    key.micro_batch_size = 1;
    const auto [entry, is_new] = least_rings_.try_emplace(key);
    if (is_new) entry->second = LeastRing(key, found_.pools, problem_, model_.problem());
    return entry->second;
  }

  [[nodiscard]] ParallelPlan PlanOf(const Combination& combination,
                                    const std::vector<ReplicaWork>& works) const {
    const SharedDegrees& degrees = Shared(combination.shared).degrees;
    std::vector<ReplicaGroup> groups;
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      groups.push_back(
          GroupOf(combination.options[i]->degrees, works[i], degrees.recompute, problem_));
    }
    return PlanOfGroups(degrees, std::move(groups), problem_);
  }

  // Returns the ring of all stages of a combination: it depends neither on the layers nor on the
  // micro-batches.
  const ReplicaRing& RingOf(const Combination& combination) {
    std::vector<int> key = {Shared(combination.shared).tensor_parallel};
    std::vector<ReplicaWork> works;
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      const ReplicaDegrees& degrees = combination.options[i]->degrees;
      key.insert(key.end(), {degrees.context_parallel, degrees.stages});
      works.push_back({.split = EvenSplit(problem_.model.layer_count, degrees.stages)});
    }
    const auto [entry, is_new] = rings_.try_emplace(std::move(key));
    if (is_new) entry->second = RingsOf(PlanOf(combination, works), 0, model_.problem()).front();
    return entry->second;
  }

  ReplicaPrices& PricesOf(const Option& option, std::size_t shared, const ReplicaRing& ring) {
    std::vector<std::pair<ReplicaRing, std::unique_ptr<ReplicaPrices>>>& known =
        prices_[{&option, shared}];
    for (const auto& [other, prices] : known) {
      if (other == ring) return *prices;
    }
    known.emplace_back(ring, std::make_unique<ReplicaPrices>(Shared(shared), option.degrees, ring,
                                                             problem_, model_));
    return *known.back().second;
  }

  // A combination whose groups are priced.
  struct Opened {
    const Combination& combination;
    std::vector<ReplicaPrices*> prices = {};
    std::vector<SharingGroup> groups = {};
    Seconds least_tail = Seconds(0);
  };

  void Open(const Combination& combination, bool probes) {
    const ReplicaRing& ring = RingOf(combination);
    Opened opened = {.combination = combination};
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      const Option& option = *combination.options[i];
      ReplicaPrices& prices = PricesOf(option, combination.shared, ring);
      if (!prices.MayFit()) return;
      opened.prices.push_back(&prices);
      opened.groups.push_back(option.sharing);
    }
    for (ReplicaPrices* const prices : opened.prices) {
      opened.least_tail = std::max(opened.least_tail, prices->LeastTail());
      if (combination.pipeline + opened.least_tail >= UsefulTime()) return;
    }
    ShareBatch(opened, probes);
  }

  // Looks at the divisions of the batch in the order of their bounds. A probe looks at even splits
  // for the first of them.
  void ShareBatch(const Opened& opened, bool probes) {
    Seconds last(0);  // from which on a group has all of the batch
    for (const SharingGroup& group : opened.groups) {
      last = std::max(last, LeastPipeline(group, std::max(1, Batch() / group.samples)));
    }
    double wider = kWiden;
    SharesBetween range = {.from = Seconds(-1), .to = kWiden * opened.combination.pipeline};
    while (true) {
      const Seconds most = std::min(last, UsefulTime() - opened.least_tail);
      if (range.from >= most) return;
      range.to = std::min(range.to, most);
      bool were_cut = false;
      const std::vector<BatchShares> all =
          SharesOf(opened.groups, Batch(), range, nodes_left_, were_cut);
      if (were_cut) LeaveOut(opened.combination.pipeline + opened.least_tail);
      for (const BatchShares& shares : all) {
        if (shares.least + opened.least_tail >= UsefulTime()) return;
        if (space_.NeedsEqualShapes() && !AreEqual(shares.micro_batches)) continue;
        if (probes || space_.NeedsEqualShapes()) {
          SplitEvenly(opened, shares);
        } else {
          Split(opened, shares);
        }
        if (probes) return;
      }
      if (were_cut) return;
      range.from = range.to;
      wider *= wider;
      range.to = wider * range.to;
    }
  }

  void SplitEvenly(const Opened& opened, const BatchShares& shares) {
    std::vector<ReplicaWork> works;
    Seconds longest(0);
    Seconds tail(0);
    for (std::size_t i = 0; i < opened.prices.size(); ++i) {
      const int micro_batches = shares.micro_batches[i];
      const std::optional<PricedSplit> found = opened.prices[i]->FindEven(micro_batches);
      if (!found.has_value()) return;
      longest = std::max(longest, found->pipeline);
      tail = std::max(tail, found->tail);
      works.push_back({.micro_batches = micro_batches, .split = found->split});
    }
    if (longest + tail >= UsefulTime()) return;
    if (space_.NeedsEqualShapes()) LevelRecomputation(works);
    Decide(PlanOf(opened.combination, works));
  }

  static bool AreEqual(const std::vector<int>& counts) {
    return std::ranges::all_of(counts, [&](int count) { return count == counts.front(); });
  }

  // Finds the layers of the stages. The longest pipeline and the longest tail may be those of
  // different groups: the fastest splits of all, then those with shorter tails, and so on.
  void Split(const Opened& opened, const BatchShares& shares) {
    const std::size_t count = opened.prices.size();
    std::vector<std::size_t> order(count);  // the longest pipeline first
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) {
      return LeastPipeline(opened.groups[i], shares.micro_batches[i]);
    });
    Seconds end(std::numeric_limits<double>::max());
    while (end > opened.least_tail) {
      std::vector<ReplicaWork> works(count);
      Seconds longest(0);
      Seconds tail(0);
      for (const std::size_t i : order) {
        const SplitGoal goal = {
            .useful = UsefulTime() - opened.least_tail, .enough = longest, .end = end};
        const bool may_be_fastest = opened.combination.least < FastestMix();
        std::int64_t nodes =
            std::min(nodes_left_, may_be_fastest ? limits_.nodes_of_shape : kNodesOfSlower);
        const std::int64_t begin = nodes;
        std::optional<Seconds> left_out;
        const std::optional<PricedSplit> found =
            opened.prices[i]->Find(shares.micro_batches[i], goal, nodes, left_out);
        nodes_left_ -= begin - nodes;
        if (left_out.has_value()) LeaveOut(*left_out + opened.least_tail);
        if (!found.has_value()) return;
        longest = std::max(longest, found->pipeline);
        tail = std::max(tail, found->tail);
        works[i] = {.micro_batches = shares.micro_batches[i], .split = found->split};
      }
      if (longest + tail < UsefulTime()) Decide(PlanOf(opened.combination, works));
      if (longest + opened.least_tail >= UsefulTime()) return;
      end = tail;
    }
  }

  // Lets the estimator decide whether a plan is the best so far.
  void Decide(const ParallelPlan& plan) {
    ++found_.evaluated_count;
    const QuickEstimate estimate = model_.Quick(plan);
    if (!estimate.fits) return;
    if (found_.best.has_value() && std::pair(found_.best->estimate.step_time, found_.best->plan) <=
                                       std::pair(estimate.step_time, plan)) {
      return;
    }
    if (space_.Allows(plan)) {
      found_.best = {.plan = plan, .estimate = estimate};
    } else {
      ++found_.illegal_count;
    }
  }

  const Problem& problem_;
  ReplicaSpace& space_;
  const MixedSpace& mixed_;
  AnalyticModel& model_;
  const SetLimits& limits_;
  std::int64_t nodes_left_;
  int steps_ = 0;
  SetFound found_;
  std::optional<Seconds> mix_ = {};
  std::vector<Combination> listed_;
  std::map<std::pair<int, std::size_t>, std::vector<Option>> options_;
  std::map<ReplicaDegrees, std::vector<std::pair<SharedDegrees, LeastLayerTime>>> layers_;
  std::map<std::vector<int>, ReplicaRing> rings_;
  std::map<ReplicaDegrees, ReplicaRing> least_rings_;
  std::map<std::pair<const Option*, std::size_t>,
           std::vector<std::pair<ReplicaRing, std::unique_ptr<ReplicaPrices>>>>
      prices_;
};

}  // namespace

SetFound SearchReplicas(const Problem& problem, ReplicaSpace& space, const MixedSpace& mixed,
                        AnalyticModel& model, const std::vector<int>& pools,
                        const SetLimits& limits, std::optional<Seconds> mix) {
  return ReplicaSearcher(problem, space, mixed, model, limits).Run(pools, mix);
}

}  // namespace meshwright
