#include "server/tuner/search/mixed/replica_prices.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "estimator/model/replica_ring.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

PricedStretch StretchOf(const SharedByReplicas& shared, const ReplicaDegrees& degrees,
                        const ReplicaRing& ring, const Problem& problem) {
  return {.plan = FlatPlanOf(shared.degrees, degrees.stages, problem),
          .stage = StageOf(degrees, problem),
          .recompute = shared.degrees.recompute,
          .micro_batches = degrees.stages,
          .ring = ring};
}

int LargestStageOf(int layers, int stages) { return (layers + stages - 1) / stages; }

}  // namespace

ReplicaRing LeastRing(const ReplicaDegrees& degrees, const std::vector<int>& pools,
                      const Problem& problem, const EstimatorProblem& estimator_problem) {
  const int layers = problem.model.layer_count;
  std::vector<ReplicaGroup> groups;
  for (const int pool : pools) {
    const ReplicaDegrees other = {.pool = pool, .tensor_parallel = degrees.tensor_parallel};
    const ReplicaDegrees& own = pool == degrees.pool ? degrees : other;
    groups.push_back(
        GroupOf(own, {.split = EvenSplit(layers, own.stages)}, MixRecompute::kNone, problem));
  }
  ReplicaRing ring = RingsOf(PlanOfGroups({}, groups, problem), 0, estimator_problem).front();
  const double least = ring.ranks;
  const double most = std::max(ring.ranks, DeviceCount(problem.cluster) / degrees.tensor_parallel);
  ring.ranks = static_cast<int>(most);
  ring.hop.seconds_per_byte *= (least - 1) / least / ((most - 1) / most);
  ring.hop.latency *= (least - 1) / (most - 1);
  return ring;
}

ReplicaPrices::ReplicaPrices(const SharedByReplicas& shared, const ReplicaDegrees& degrees,
                             const ReplicaRing& ring, const Problem& problem, AnalyticModel& model)
    : shared_(shared),
      degrees_(degrees),
      problem_(problem),
      model_(model),
      prices_(StretchOf(shared, degrees, ring, problem), model) {
  // Some stage has as many layers as this or more. In the middle of a pipeline, with the
  // activations of one micro-batch, it needs the least memory.
  const int p = degrees.stages;
  const int layers = LargestStageOf(problem.model.layer_count, p);
  may_fit_ = prices_.Of({.is_first = p == 1, .is_last = p == 1}, layers).fits;
}

ParallelPlan ReplicaPrices::PlanOf(const ReplicaWork& work) const {
  ReplicaDegrees one = degrees_;
  one.replicas = 1;
  return PlanOfGroups(shared_.degrees, {GroupOf(one, work, shared_.degrees.recompute, problem_)},
                      problem_);
}

const MixedPipeline& ReplicaPrices::Pipeline() {
  if (!pipeline_.has_value()) {
    const ReplicaWork even = {.split = EvenSplit(problem_.model.layer_count, degrees_.stages)};
    pipeline_.emplace(PlanOf(even), prices_, model_);
  }
  return *pipeline_;
}

// The tail of a stage need not grow with its layers, behind whose computation it hides.
Seconds ReplicaPrices::LeastTail() {
  if (least_tail_.has_value()) return *least_tail_;
  const int p = degrees_.stages;
  const int layers = problem_.model.layer_count;
  Seconds least(std::numeric_limits<double>::max());
  const auto add = [&](bool is_first, bool is_last, int count) {
    const StagePrice price = prices_.Of({.is_first = is_first, .is_last = is_last}, count);
    if (price.fits) least = std::min(least, price.tail);
    return price.fits;
  };
  if (model_.caches().units.layers().kinds().size() > 1) {
    least = Seconds(0);
  } else if (p == 1) {
    if (!add(true, true, layers)) least = Seconds(0);
  } else {
    for (const auto& [is_first, is_last] :
         {std::pair(true, false), std::pair(false, true), std::pair(false, false)}) {
      if (p == 2 && !is_first && !is_last) continue;
      for (int count = LargestStageOf(layers, p); count <= layers - p + 1; ++count) {
        if (!add(is_first, is_last, count)) break;
      }
    }
    if (least == Seconds(std::numeric_limits<double>::max())) least = Seconds(0);
  }
  least_tail_ = least;
  return least;
}

PricedSplit ReplicaPrices::Priced(int micro_batches, std::vector<StageLayers> split) {
  PricedSplit priced = {.tail = Pipeline().With(micro_batches, Seconds(0)).TailOf(split)};
  const StageRuns runs(PlanOf({.micro_batches = micro_batches, .split = split}), 0,
                       model_.problem(), model_.caches().units);
  priced.pipeline = model_.time().Of(runs, PipelineModel::kSimulated, model_.caches()).pipeline;
  priced.split = std::move(split);
  return priced;
}

std::optional<PricedSplit> ReplicaPrices::FindEven(int micro_batches) {
  const MixedPipeline pipeline =
      Pipeline().With(micro_batches, Seconds(std::numeric_limits<double>::max()));
  std::vector<StageLayers> split = EvenSplit(problem_.model.layer_count, degrees_.stages);
  int first_layer = 0;
  for (std::size_t i = 0; i < split.size(); ++i) {
    const StagePrice price = pipeline.PriceOf(static_cast<int>(i), first_layer, split[i].layers);
    if (!price.fits) return std::nullopt;
    split[i].recomputed = price.recomputed;
    first_layer += split[i].layers;
  }
  return Priced(micro_batches, std::move(split));
}

std::optional<PricedSplit> ReplicaPrices::Find(int micro_batches, const SplitGoal& goal,
                                               std::int64_t& nodes_left,
                                               std::optional<Seconds>& least_left_out) {
  std::map<Seconds, Known>& ends = known_[micro_batches];
  // The fastest of all splits whose tails are longer is the fastest of these too, if it is one.
  for (auto other = ends.lower_bound(goal.end); other != ends.end(); ++other) {
    const Known& known = other->second;
    if (known.none_below >= goal.useful) return std::nullopt;
    if (!known.found.has_value() || known.found->tail >= goal.end) continue;
    if (!known.is_fastest && known.found->pipeline > goal.enough) continue;
    if (known.found->pipeline >= goal.useful) return std::nullopt;
    return known.found;
  }
  Known& known = ends[goal.end];
  Search(micro_batches, goal, nodes_left, least_left_out, known);
  return known.found;
}

void ReplicaPrices::Search(int micro_batches, const SplitGoal& goal, std::int64_t& nodes_left,
                           std::optional<Seconds>& least_left_out, Known& known) {
  known = {};
  const MixedPipeline pipeline = Pipeline().With(micro_batches, goal.end);
  SplitSearch search = {.useful = goal.useful, .nodes_left = nodes_left};
  search.visit = [&](const std::vector<StageLayers>& split) {
    PricedSplit priced = Priced(micro_batches, split);
    if (priced.pipeline >= search.useful) return;
    search.useful = priced.pipeline <= goal.enough ? Seconds(0) : priced.pipeline;
    known.found = std::move(priced);
  };
  LayerSplits::Table table;
  LayerSplits(pipeline, goal.useful, table).Search(search);
  nodes_left = search.nodes_left;
  if (search.least_left_out.has_value()) {
    least_left_out =
        std::min(least_left_out.value_or(*search.least_left_out), *search.least_left_out);
    return;
  }
  if (!known.found.has_value()) {
    known.none_below = goal.useful;
    return;
  }
  known.is_fastest = search.useful > Seconds(0);
}

}  // namespace meshwright
