#include "server/tuner/search/mixed/set_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

#include "absl/container/inlined_vector.h"
#include "estimator/learning/calibration.h"
#include "estimator/model/pipeline_messages.h"
#include "estimator/pipeline/program.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/search/mixed/layer_splits.h"
#include "server/tuner/search/mixed/mixed_pipeline.h"
#include "server/tuner/search/mixed/shape_bound.h"

namespace meshwright {
namespace {

constexpr std::size_t kMaxPools = 8;
constexpr double kMuchBetter = 0.99;
// The fastest options of each pool that are combined first, for a plan to begin with.
constexpr std::size_t kProbedOptions = 4;
constexpr std::int64_t kProbedNodes = 200;  // partial splits of each
constexpr int kStopEvery = 16;              // shapes between two looks at the clock

using Option = SharedPrices::Option;
using HopsOfStretches = absl::InlinedVector<StretchHops, 2>;

// A shape before it is opened.
struct Listed {
  Seconds least = Seconds(0);
  std::size_t shared = 0;
  std::array<const Option*, kMaxPools> stretches = {};  // in the order of the pipeline
};

// A shape whose splits are bounded.
struct Opened {
  Seconds least = Seconds(0);
  std::size_t listed = 0;

  bool operator<(const Opened& other) const {  // the top of a heap is the largest
    return std::pair(other.least, other.listed) < std::pair(least, listed);
  }
};

// The first stretches of a shape.
struct Flow {
  double rate = 0;  // layers a second that they pass together
  int held = 0;     // most layers in useful time
  int stages = 0;
  std::size_t stretches = 0;
};

bool AreEqual(const PoolDegrees& a, const PoolDegrees& b) {
  return a.tensor_parallel == b.tensor_parallel && a.context_parallel == b.context_parallel &&
         a.data_parallel == b.data_parallel;
}

class SetSearcher {
 public:
  SetSearcher(const MixedContext& context, const std::vector<int>& pools, MixDegrees degrees,
              const SetLimits& limits)
      : context_(context),
        degrees_(degrees),
        limits_(limits),
        sends_beside_work_(SendsBesideWork(context.model.problem())),
        nodes_left_(limits.nodes) {
    found_.pools = pools;
  }

  SetFound Run(const std::optional<RecomputeChoice>& known) {
    found_.best = known;
    for (std::size_t shared = 0; shared < context_.space.shared().size(); ++shared) {
      CountPlans(shared);
    }
    // Any plan spares listing most of the shapes.
    if (!known.has_value()) Probe();
    ListAll(std::numeric_limits<std::size_t>::max());
    OpenListed();
    return std::move(found_);
  }

 private:
  // Looks for a plan to begin with.
  void Probe() {
    ListAll(kProbedOptions);
    for (std::size_t i = 0; i < listed_.size() && listed_[i].least < Useful(); ++i) {
      const MixedShape shape = ShapeOf(listed_[i]);
      const MixedPipeline pipeline = PipelineOf(listed_[i], shape);
      SplitSearch search = {.useful = Useful(), .nodes_left = kProbedNodes};
      const LayerSplits splits(pipeline, Useful(), table_);
      if (splits.Least().has_value() && context_.space.Allows(shape)) Search(shape, splits, search);
    }
  }

  // Opens the listed shapes and searches their splits, the most promising first.
  void OpenListed() {
    std::size_t next = 0;
    opened_ = {};
    while (next < listed_.size() || !opened_.empty()) {
      const bool opens =
          opened_.empty() || (next < listed_.size() && listed_[next].least < opened_.top().least);
      const Seconds least = opens ? listed_[next].least : opened_.top().least;
      if (least >= Useful()) break;
      if (IsStopped()) {
        LeaveOut(least);
        break;
      }
      if (opens) {
        Open(next++);
        continue;
      }
      const Opened opened = opened_.top();
      opened_.pop();
      SearchSplits(opened);
    }
  }

  // Returns the step time from which on a plan is no better than the best one.
  [[nodiscard]] Seconds Useful() const {
    if (!found_.best.has_value()) return Seconds(std::numeric_limits<double>::max());
    return (1 - kEqualShare) * found_.best->estimate.step_time;
  }

  void LeaveOut(Seconds least) {
    found_.least_left_out = std::min(found_.least_left_out.value_or(least), least);
  }

  bool IsStopped() {
    if (!limits_.stop || ++steps_ % kStopEvery != 0) return false;
    found_.stopped = limits_.stop();
    return found_.stopped.has_value();
  }

  // Lists the shapes of all shared choices that may be better than the best plan, of the fastest
  // `most` options of each pool.
  void ListAll(std::size_t most) {
    listed_.clear();
    for (std::size_t shared = 0; shared < context_.space.shared().size(); ++shared) {
      options_.clear();
      for (const int pool : found_.pools) {
        options_.push_back(&context_.prices.OptionsOf(pool, shared));
      }
      if (std::ranges::any_of(options_, [](const auto* options) { return options->empty(); })) {
        continue;
      }
      const double layers = context_.problem.model.layer_count;
      least_rate_ = MicroBatches(shared) * layers / UsefulTime().count();
      FindMostHeld(shared);
      Listed shape = {.shared = shared};
      List({}, most, shape);
    }
    std::ranges::stable_sort(listed_, {}, &Listed::least);
  }

  // Counts the plans with these shared choices, whatever their order.
  void CountPlans(std::size_t shared) {
    const int layers = context_.problem.model.layer_count;
    std::map<int, double> shapes = {{0, 1}};  // by their number of stages
    double orders = 1;
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      orders *= static_cast<double>(i + 1);
      std::map<int, double> longer;
      for (const Option& option : context_.prices.OptionsOf(found_.pools[i], shared)) {
        for (const auto& [stages, count] : shapes) longer[stages + option.degrees.stages] += count;
      }
      shapes = std::move(longer);
    }
    double plans = static_cast<double>(found_.space_count);
    for (const auto& [stages, count] : shapes) {
      if (stages > layers) break;
      plans += orders * count * static_cast<double>(context_.space.SplitCount(stages));
    }
    found_.space_count = plans < static_cast<double>(kManyPlans)
                             ? static_cast<std::int64_t>(plans + 0.5)
                             : kManyPlans;
  }

  [[nodiscard]] int MicroBatches(std::size_t shared) const {
    return context_.problem.workload.global_batch_size / context_.space.shared()[shared].sequences;
  }

  // Returns a lower bound of the step times of plans whose pipeline and tail take at least `time`.
  [[nodiscard]] Seconds StepOf(Seconds time) const {
    return (1 - kEqualShare) * LeastTimeRatio(context_.model.calibration()) *
           (time + context_.problem.profile.fixed_per_step);
  }

  // Returns the pipeline and tail of plans that take as long as is useful.
  [[nodiscard]] Seconds UsefulTime() const {
    return Useful() / ((1 - kEqualShare) * LeastTimeRatio(context_.model.calibration())) -
           context_.problem.profile.fixed_per_step;
  }

  // Returns the same of shapes whose stages pass so many layers a second.
  [[nodiscard]] Seconds LeastStep(double rate, std::size_t shared) const {
    const double layers = context_.problem.model.layer_count;
    return StepOf(Seconds(MicroBatches(shared) * layers / rate));
  }

  // Finds the most layers that each option holds in useful time.
  void FindMostHeld(std::size_t shared) {
    const int layers = context_.problem.model.layer_count;
    const Seconds most = UsefulTime() / MicroBatches(shared) * (1 + kEqualShare);
    most_held_.resize(options_.size());
    for (std::size_t i = 0; i < options_.size(); ++i) {
      most_held_[i].clear();
      for (const Option& option : *options_[i]) {
        const double of_stage =
            std::floor(std::min<double>(layers, most / option.prices->LeastLayer()));
        most_held_[i].push_back(
            std::min(layers, option.degrees.stages * static_cast<int>(of_stage)));
      }
    }
  }

  // Returns the sum of the best rates of the pools from `depth` on.
  [[nodiscard]] double FastestRate(std::size_t depth) const {
    double rate = 0;
    for (std::size_t i = depth; i < options_.size(); ++i) rate += options_[i]->front().rate;
    return rate;
  }

  // Lists the shapes that share the first stretches of `shape`, whose flow is `flow`.
  void List(const Flow& flow, std::size_t most, Listed& shape) {
    const std::size_t depth = flow.stretches;
    if (listed_.size() >= limits_.shapes) {
      LeaveOut(LeastStep(flow.rate + FastestRate(depth), shape.shared));
      return;
    }
    if (depth == options_.size()) {
      if (MakesADifference(shape) && LeastInAnyOrder(shape).has_value()) ListOrders(shape);
      return;
    }
    const int layers = context_.problem.model.layer_count;
    const double rest = FastestRate(depth + 1);
    int rest_held = 0;
    for (std::size_t i = depth + 1; i < options_.size(); ++i) {
      rest_held = std::min(layers, rest_held + std::ranges::max(most_held_[i]));
    }
    const std::vector<Option>& options = *options_[depth];
    for (std::size_t i = 0; i < std::min(most, options.size()); ++i) {
      const Option& option = options[i];
      // The slowest stage alone bounds all that are no faster.
      if (flow.rate + option.rate + rest <= least_rate_ * (1 - kEqualShare)) return;
      const bool is_unequal = degrees_ == MixDegrees::kEqual && depth > 0 &&
                              !AreEqual(shape.stretches[0]->degrees, option.degrees);
      const int stages = flow.stages + option.degrees.stages;
      const int held = flow.held + most_held_[depth][i];
      if (is_unequal || stages > layers || held + rest_held < layers) continue;
      shape.stretches[depth] = &option;
      List(
          {.rate = flow.rate + option.rate, .held = held, .stages = stages, .stretches = depth + 1},
          most, shape);
    }
  }

  // Returns false for choices that no stretch makes use of, unless they are the first.
  [[nodiscard]] bool MakesADifference(const Listed& shape) const {
    const SharedDegrees& shared = context_.space.shared()[shape.shared];
    const auto any = [&](int PoolDegrees::*degree) {
      return std::ranges::any_of(options_, [&, i = std::size_t{0}](const auto*) mutable {
        return shape.stretches[i++]->degrees.*degree > 1;
      });
    };
    if (shared.sequence_parallel && !any(&PoolDegrees::tensor_parallel)) return false;
    return shared.context_parallel_kind == context_.problem.space.context_parallel_kinds.front() ||
           any(&PoolDegrees::context_parallel);
  }

  // Lists the orders of a shape's stretches.
  void ListOrders(const Listed& shape) {
    std::array<std::size_t, kMaxPools> order = {};
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(options_.size());
    std::iota(order.begin(), end, std::size_t{0});
    do {
      Listed ordered = {.shared = shape.shared};
      for (std::size_t i = 0; i < options_.size(); ++i) {
        ordered.stretches[i] = shape.stretches[order[i]];
      }
      const std::optional<Seconds> time = LeastOf(ordered);
      if (!time.has_value()) continue;
      ordered.least = StepOf(*time);
      listed_.push_back(ordered);
    } while (std::next_permutation(order.begin(), end));
  }

  // Returns a lower bound that holds for all orders of the stretches, or nullopt if they are of no
  // use. It leaves out messages and the ends of the pipeline.
  [[nodiscard]] std::optional<Seconds> LeastInAnyOrder(const Listed& shape) const {
    absl::InlinedVector<AlikeStages, kMaxPools> stages;
    for (std::size_t i = 0; i < options_.size(); ++i) {
      StagePrices& prices = *shape.stretches[i]->prices;
      stages.push_back({.prices = &prices,
                        .count = shape.stretches[i]->degrees.stages,
                        .forward = prices.MostForward(),
                        .layer = prices.LeastLayer()});
    }
    return LeastOfShape({.stages = stages,
                         .layers = context_.problem.model.layer_count,
                         .micro_batches = MicroBatches(shape.shared)},
                        UsefulTime());
  }

  [[nodiscard]] HopsOfStretches HopsOf(const Listed& shape) {
    HopsOfStretches hops(found_.pools.size());
    for (std::size_t i = 0; i < hops.size(); ++i) {
      const Option& own = *shape.stretches[i];
      if (own.degrees.stages > 1) hops[i].inside = context_.prices.HopBetween(own, own);
      if (i + 1 == hops.size()) break;
      hops[i].behind = context_.prices.HopBetween(own, *shape.stretches[i + 1]);
    }
    return hops;
  }

  // Returns a lower bound of the pipeline and its tail, or nullopt if they are of no use.
  [[nodiscard]] std::optional<Seconds> LeastOf(const Listed& shape) {
    const HopsOfStretches hops = HopsOf(shape);
    absl::InlinedVector<AlikeStages, 3 * kMaxPools> stages;
    ShapeCosts costs = {.layers = context_.problem.model.layer_count,
                        .micro_batches = MicroBatches(shape.shared)};
    Hop before;
    for (std::size_t i = 0; i < hops.size(); ++i) {
      StagePrices& prices = *shape.stretches[i]->prices;
      const int count = shape.stretches[i]->degrees.stages;
      costs.hops += (count - 1) * Sum(hops[i].inside) + Sum(hops[i].behind);
      const auto add = [&](int equal, const Hop& ahead, const Hop& behind) {
        const Hop message = sends_beside_work_ ? Hop() : LongerOf(ahead, behind);
        stages.push_back({.prices = &prices,
                          .count = equal,
                          .forward = prices.MostForward(),
                          .layer = prices.LeastLayer(),
                          .message = Sum(message),
                          .sent = message.forward});
      };
      if (count == 1) {
        add(1, before, hops[i].behind);
      } else {
        add(1, before, hops[i].inside);
        if (count > 2) add(count - 2, hops[i].inside, hops[i].inside);
        add(1, hops[i].inside, hops[i].behind);
      }
      before = hops[i].behind;
    }
    if (!sends_beside_work_) costs.hops = Seconds(0);
    stages.front().embedding = stages.front().prices->LeastEmbedding();
    stages.back().embedding += stages.back().prices->LeastHead();
    costs.stages = stages;
    return LeastOfShape(costs, UsefulTime());
  }

  [[nodiscard]] MixedShape ShapeOf(const Listed& listed) const {
    MixedShape shape = {.shared = context_.space.shared()[listed.shared]};
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      shape.stretches.push_back(listed.stretches[i]->degrees);
    }
    return shape;
  }

  [[nodiscard]] MixedPipeline PipelineOf(const Listed& listed, const MixedShape& shape) {
    std::vector<StagePrices*> prices;
    for (std::size_t i = 0; i < found_.pools.size(); ++i) {
      prices.push_back(listed.stretches[i]->prices);
    }
    return MixedPipeline(shape, std::move(prices), HopsOf(listed), context_.problem,
                         context_.model);
  }

  // Bounds the splits of a shape.
  void Open(std::size_t index) {
    const Listed& listed = listed_[index];
    const MixedShape shape = ShapeOf(listed);
    const MixedPipeline pipeline = PipelineOf(listed, shape);
    const std::optional<Seconds> least = LayerSplits(pipeline, Useful(), table_).Least();
    if (!least.has_value() || *least >= Useful()) return;
    if (context_.space.Allows(shape)) {
      const Opened opened = {.least = *least, .listed = index};
      // A much better plan at once bounds the splits of all shapes that are opened after it.
      if (*least < kMuchBetter * Useful()) {
        SearchSplits(opened);
      } else {
        opened_.push(opened);
      }
      return;
    }
    found_.illegal_count =
        std::min(kManyPlans, found_.illegal_count + context_.space.SplitCount(StageCount(shape)));
  }

  void SearchSplits(const Opened& opened) {
    const Listed& listed = listed_[opened.listed];
    const MixedShape shape = ShapeOf(listed);
    const MixedPipeline pipeline = PipelineOf(listed, shape);
    SplitSearch search = {.useful = Useful(),
                          .nodes_left = std::min(nodes_left_, limits_.nodes_of_shape)};
    const std::int64_t begin = search.nodes_left;
    Search(shape, LayerSplits(pipeline, Useful(), table_), search);
    nodes_left_ -= begin - search.nodes_left;
    if (search.least_left_out.has_value()) LeaveOut(*search.least_left_out);
  }

  // Lets the estimator decide between the splits of a shape.
  void Search(const MixedShape& shape, const LayerSplits& splits, SplitSearch& search) {
    search.visit = [&](const std::vector<StageLayers>& split) {
      Decide(PlanOf(shape, split, context_.problem));
      search.useful = Useful();
    };
    splits.Search(search);
  }

  // Lets the estimator decide whether a plan is the best so far.
  void Decide(const ParallelPlan& plan) {
    ++found_.evaluated_count;
    const QuickEstimate estimate = context_.model.Quick(plan);
    if (!estimate.fits) return;
    const bool is_better = !found_.best.has_value() ||
                           std::pair(estimate.step_time, plan) <
                               std::pair(found_.best->estimate.step_time, found_.best->plan);
    if (is_better) found_.best = {.plan = plan, .estimate = estimate};
  }

  const MixedContext& context_;
  MixDegrees degrees_;
  const SetLimits& limits_;
  bool sends_beside_work_;
  std::vector<const std::vector<Option>*> options_;  // of each pool, beside the shared choices
  std::vector<std::vector<int>> most_held_;          // of each option (FindMostHeld)
  double least_rate_ = 0;                            // below which no shape is of use
  LayerSplits::Table table_;
  std::int64_t nodes_left_;
  int steps_ = 0;
  SetFound found_;
  std::vector<Listed> listed_;  // the most promising first
  std::priority_queue<Opened> opened_;
};

}  // namespace

SharedPrices::SharedPrices(const Problem& problem, const MixedSpace& space, AnalyticModel& model)
    : problem_(problem), space_(space), model_(model) {}

const std::vector<SharedPrices::Option>& SharedPrices::OptionsOf(int pool, std::size_t shared) {
  const auto [entry, is_new] = options_.try_emplace({pool, shared});
  if (is_new) {
    const SharedDegrees& chosen = space_.shared()[shared];
    for (const PoolDegrees& degrees : space_.DegreesOf(pool, chosen)) {
      prices_.push_back(
          std::make_unique<StagePrices>(StretchOf(chosen, degrees, problem_), model_));
      const auto layout = layouts_.try_emplace(
          Layout(degrees, chosen.sequences, chosen.sequence_parallel), layouts_.size());
      entry->second.push_back({.degrees = degrees,
                               .prices = prices_.back().get(),
                               .rate = degrees.stages / prices_.back()->LeastLayer().count(),
                               .layout = layout.first->second});
    }
    std::ranges::stable_sort(entry->second, std::ranges::greater(), &Option::rate);
  }
  return entry->second;
}

const Hop& SharedPrices::HopBetween(const Option& from, const Option& to) {
  const auto [entry, is_new] =
      hops_.try_emplace(std::uint64_t{from.layout} << 32U | std::uint64_t{to.layout});
  if (is_new) {
    entry->second =
        meshwright::HopBetween(from.prices->devices(), to.prices->devices(), model_.problem());
  }
  return entry->second;
}

SetFound SearchSet(const MixedContext& context, const std::vector<int>& pools, MixDegrees degrees,
                   const SetLimits& limits, const std::optional<RecomputeChoice>& known) {
  return SetSearcher(context, pools, degrees, limits).Run(known);
}

}  // namespace meshwright
