#include "server/tuner/search/mixed/set_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <queue>

#include "absl/container/inlined_vector.h"
#include "estimator/learning/calibration.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/search/mixed/layer_splits.h"
#include "server/tuner/search/mixed/mixed_pipeline.h"

namespace meshwright {
namespace {

constexpr std::size_t kMaxPools = 8;
constexpr double kMuchBetter = 0.99;
constexpr int kStopEvery = 16;  // shapes between two looks at the clock

using Option = SharedPrices::Option;

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

// The sizes of a job that its pipeline depends on.
struct JobSize {
  int layers = 1;
  int micro_batches = 1;
};

// The stretches of a shape, as far as its least time depends on them.
struct Flow {
  double rate = 0;  // of all stretches together
  int stages = 0;

  void Add(const Option& option) {
    rate += option.rate;
    stages += option.degrees.stages;
  }
};

// Returns the least sum of all stages' work: the layers are on the stretches that are fastest for a
// single layer, as many as their stages can take in `most` each. Returns nullopt if they cannot
// take all.
std::optional<Seconds> LeastSum(const Listed& shape, std::size_t count, int layers, Seconds most) {
  absl::InlinedVector<const Option*, kMaxPools> fastest(
      shape.stretches.begin(), shape.stretches.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::sort(fastest, {}, [](const Option* option) { return option->prices->LeastLayer(); });
  double left = layers * (1 - kEqualShare);
  Seconds sum(0);
  for (const Option* const option : fastest) {
    const Seconds layer = option->prices->LeastLayer();
    const double taken = std::min(left, option->degrees.stages * (most / layer));
    sum += taken * layer;
    left -= taken;
  }
  if (left > kEqualShare) return std::nullopt;
  return sum;
}

// Returns a lower bound of the pipeline and its tail, whatever the order of its stretches and the
// split of the layers, if it takes less than `useful`; nullopt if it does not. Some stage takes as
// long as if layers could be divided, or longer. The other stages run before its first or after its
// last micro-batch, but for its own warm-up, in which it has a forward pass for each stage behind
// it (Least1f1bTime).
std::optional<Seconds> LeastOf(const Flow& flow, const Listed& shape, std::size_t count,
                               const JobSize& job, Seconds useful) {
  const double m = job.micro_batches;
  const std::optional<Seconds> sum = LeastSum(shape, count, job.layers, useful / m);
  if (!sum.has_value()) return std::nullopt;
  const double warm_up = std::min(flow.stages, job.micro_batches) - 1;
  const Seconds slowest(job.layers / flow.rate);
  Seconds least(std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < count; ++i) {
    StagePrices& prices = *shape.stretches[i]->prices;
    // If the slowest stage is one of this stretch, it has a whole number of layers.
    const double divided = slowest / prices.LeastLayer();
    const int layers = std::max(1, static_cast<int>(std::ceil(divided * (1 - kEqualShare))));
    const Seconds work = std::max(slowest, layers * prices.LeastLayer());
    const double own = m - 1 - warm_up * prices.MostForward();
    const Seconds pipeline = std::max(m * work, own * work + *sum);
    least = std::min(least, pipeline + prices.LeastTail(layers));
  }
  return least;
}

bool AreEqual(const PoolDegrees& a, const PoolDegrees& b) {
  return a.tensor_parallel == b.tensor_parallel && a.context_parallel == b.context_parallel &&
         a.data_parallel == b.data_parallel;
}

class SetSearcher {
 public:
  SetSearcher(const MixedContext& context, const std::vector<int>& pools, MixDegrees degrees,
              const SetLimits& limits)
      : context_(context), degrees_(degrees), limits_(limits), nodes_left_(limits.nodes) {
    found_.pools = pools;
  }

  SetFound Run(const std::optional<RecomputeChoice>& known) {
    found_.best = known;
    ListAll();
    std::size_t next = 0;
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
    return std::move(found_);
  }

 private:
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

  void ListAll() {
    std::vector<int> order = found_.pools;
    for (std::size_t shared = 0; shared < context_.space.shared().size(); ++shared) {
      CountPlans(shared);
      std::ranges::sort(order);
      do {
        Listed shape = {.shared = shared};
        List(order, 0, {}, shape);
      } while (std::ranges::next_permutation(order).found);
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

  [[nodiscard]] JobSize JobOf(std::size_t shared) const {
    const Problem& problem = context_.problem;
    return {.layers = problem.model.layer_count,
            .micro_batches =
                problem.workload.global_batch_size / context_.space.shared()[shared].sequences};
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
    const JobSize job = JobOf(shared);
    return StepOf(Seconds(static_cast<double>(job.micro_batches) * job.layers / rate));
  }

  // Returns the sum of the best rates of the pools from `depth` on.
  [[nodiscard]] double FastestRate(const std::vector<int>& order, std::size_t depth,
                                   std::size_t shared) {
    double rate = 0;
    for (std::size_t i = depth; i < order.size(); ++i) {
      const std::vector<Option>& options = context_.prices.OptionsOf(order[i], shared);
      rate += options.empty() ? 0 : options.front().rate;
    }
    return rate;
  }

  // Lists the shapes of this order that share the first `depth` stretches of `shape`, whose flow is
  // `flow`, and may be better than the best plan.
  void List(const std::vector<int>& order, std::size_t depth, const Flow& flow, Listed& shape) {
    const int layers = context_.problem.model.layer_count;
    if (listed_.size() >= limits_.shapes) {
      LeaveOut(LeastStep(flow.rate + FastestRate(order, depth, shape.shared), shape.shared));
      return;
    }
    if (depth == order.size()) {
      const std::optional<Seconds> time =
          LeastOf(flow, shape, order.size(), JobOf(shape.shared), UsefulTime());
      if (!time.has_value() || StepOf(*time) >= Useful()) return;
      listed_.push_back(shape);
      listed_.back().least = StepOf(*time);
      return;
    }
    const double rest = FastestRate(order, depth + 1, shape.shared);
    for (const Option& option : context_.prices.OptionsOf(order[depth], shape.shared)) {
      // The slowest stage alone bounds all that are no faster.
      if (LeastStep(flow.rate + option.rate + rest, shape.shared) >= Useful()) return;
      const bool is_unequal = degrees_ == MixDegrees::kEqual && depth > 0 &&
                              !AreEqual(shape.stretches[0]->degrees, option.degrees);
      if (is_unequal || flow.stages + option.degrees.stages > layers) continue;
      shape.stretches[depth] = &option;
      Flow longer = flow;
      longer.Add(option);
      List(order, depth + 1, longer, shape);
    }
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
    return MixedPipeline(shape, std::move(prices), context_.problem, context_.model);
  }

  // Bounds the splits of a shape.
  void Open(std::size_t index) {
    const Listed& listed = listed_[index];
    const MixedShape shape = ShapeOf(listed);
    const MixedPipeline pipeline = PipelineOf(listed, shape);
    const std::optional<Seconds> least = LayerSplits(pipeline, Useful()).Least();
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
    search.visit = [&](const std::vector<StageLayers>& split) {
      Decide(PlanOf(shape, split, context_.problem));
      search.useful = Useful();
    };
    LayerSplits(pipeline, Useful()).Search(search);
    nodes_left_ -= begin - search.nodes_left;
    if (search.least_left_out.has_value()) LeaveOut(*search.least_left_out);
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
      entry->second.push_back({.degrees = degrees,
                               .prices = prices_.back().get(),
                               .rate = degrees.stages / prices_.back()->LeastLayer().count()});
    }
    std::ranges::stable_sort(entry->second, std::ranges::greater(), &Option::rate);
  }
  return entry->second;
}

SetFound SearchSet(const MixedContext& context, const std::vector<int>& pools, MixDegrees degrees,
                   const SetLimits& limits, const std::optional<RecomputeChoice>& known) {
  return SetSearcher(context, pools, degrees, limits).Run(known);
}

}  // namespace meshwright
