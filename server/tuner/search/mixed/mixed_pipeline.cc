#include "server/tuner/search/mixed/mixed_pipeline.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimator/model/memory_model.h"
#include "estimator/model/pipeline_messages.h"
#include "estimator/model/stage_runs.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

constexpr double kSlack = 1e-9;  // for sums that round

}  // namespace

MixedPipeline::MixedPipeline(const MixedShape& shape, std::vector<StagePrices*> prices,
                             const Problem& problem, AnalyticModel& model)
    : layers_(problem.model.layer_count),
      micro_batches_(problem.workload.global_batch_size / shape.shared.sequences),
      fixed_(problem.profile.fixed_per_step),
      prices_(std::move(prices)) {
  for (std::size_t i = 0; i < shape.stretches.size(); ++i) {
    stretch_of_.insert(stretch_of_.end(), static_cast<std::size_t>(shape.stretches[i].stages),
                       static_cast<int>(i));
  }
  // Neither messages nor what was learnt of a plan depend on the split of its layers.
  const bool has_learnt = !model.calibration().time.points.empty();
  time_ratio_ =
      has_learnt ? model.TimeRatio(EvenPlanOf(shape, problem)) : model.calibration().time_ratio;
  TakeMessages(shape, problem, model);
}

MixedPipeline::MixedPipeline(const ParallelPlan& plan, StagePrices& prices, AnalyticModel& model)
    : layers_(model.problem().model.layer_count),
      micro_batches_(plan.replica_groups.front().micro_batch_count),
      time_ratio_(1),
      fixed_(0),
      prices_({&prices}),
      stretch_of_(plan.replica_groups.front().stages.size(), 0) {
  const EstimatorProblem& problem = model.problem();
  const StageRuns runs(plan, 0, problem, model.caches().units);
  const PipelineMessages messages = MessagesOf(runs, problem);
  const Hop each = {.forward = messages.each, .backward = messages.each};
  std::vector<Hop> behind = messages.hops;
  if (behind.empty()) behind.assign(stretch_of_.size() - 1, each);
  PlaceMessages(behind, problem);
  tied_ = TiedGradientsTime(runs, model.memory().state_bytes().reduced_gradient, problem);
}

MixedPipeline MixedPipeline::With(int micro_batches, Seconds end) const {
  MixedPipeline pipeline = *this;
  pipeline.micro_batches_ = micro_batches;
  pipeline.end_ = end;
  return pipeline;
}

// Finds the messages from a plan that has at most two stages of each stretch.
void MixedPipeline::TakeMessages(const MixedShape& shape, const Problem& problem,
                                 AnalyticModel& model) {
  std::vector<StagePlan> stages;
  for (const PoolDegrees& degrees : shape.stretches) {
    StagePlan& stage = stages.emplace_back(StageOf(degrees, shape.shared, problem));
    stage.layer_count = 1;
    if (degrees.stages > 1) stages.push_back(StagePlan(stage));
  }
  ParallelPlan plan = FlatPlanOf(shape.shared, static_cast<int>(stages.size()), problem);
  plan.stages = std::move(stages);
  const StageRuns runs = model.StagesOf(plan);
  const PipelineMessages messages = MessagesOf(runs, model.problem());
  const Hop each = {.forward = messages.each, .backward = messages.each};
  std::vector<Hop> behind;  // each stage but the last
  std::size_t next = 0;
  const auto hop = [&] { return messages.hops.empty() ? each : messages.hops[next]; };
  for (const PoolDegrees& degrees : shape.stretches) {
    if (degrees.stages > 1) {
      behind.insert(behind.end(), static_cast<std::size_t>(degrees.stages - 1), hop());
      ++next;
    }
    if (&degrees != &shape.stretches.back()) behind.push_back(hop());
    ++next;
  }
  PlaceMessages(behind, model.problem());
  tied_ = TiedGradientsTime(runs, model.memory().state_bytes().reduced_gradient, model.problem());
}

void MixedPipeline::PlaceMessages(const std::vector<Hop>& behind, const EstimatorProblem& problem) {
  const auto p = static_cast<std::size_t>(stages());
  const bool overlaps =
      problem.workload.overlap.pipeline_p2p && !problem.profile.overlaps_only_interleaved_sends;
  hops_.assign(p, Seconds(0));
  occupying_.assign(p, Hop());
  for (std::size_t i = 0; i < p; ++i) {
    const Hop before = i > 0 ? behind[i - 1] : Hop();
    const Hop after = i + 1 < p ? behind[i] : Hop();
    if (overlaps) {
      hops_[i] = Sum(after);
    } else {
      occupying_[i] = Sum(before) > Sum(after) ? before : after;
    }
  }
}

int MixedPipeline::MostLayers(int stage, Seconds work) const {
  const auto i = static_cast<std::size_t>(stage);
  const Seconds layer = prices_[static_cast<std::size_t>(stretch_of_[i])]->LeastLayer();
  const double most = (work - Sum(occupying_[i])) / layer * (1 + kSlack);
  return most < layers_ ? static_cast<int>(std::max(0.0, most)) : layers_;
}

StagePrice MixedPipeline::BarePriceOf(int stage, int first_layer, int layers) const {
  const int p = stages();
  const PricedPlace place = {.is_first = stage == 0,
                             .is_last = stage + 1 == p,
                             .in_flight = std::min(micro_batches_, p - stage),
                             .first_layer = first_layer};
  const int stretch = stretch_of_[static_cast<std::size_t>(stage)];
  StagePrice price = prices_[static_cast<std::size_t>(stretch)]->Of(place, layers);
  if (place.is_first || place.is_last) price.tail += tied_;
  return price;
}

StagePrice MixedPipeline::PriceOf(int stage, int first_layer, int layers) const {
  const auto i = static_cast<std::size_t>(stage);
  StagePrice price = BarePriceOf(stage, first_layer, layers);
  price.forward += occupying_[i].forward;
  price.backward += occupying_[i].backward;
  if (end_.has_value()) {
    price.is_late = price.tail >= *end_;
    price.tail = Seconds(0);
  }
  return price;
}

Seconds MixedPipeline::TailOf(const std::vector<StageLayers>& split) const {
  Seconds longest(0);
  int first_layer = 0;
  for (std::size_t i = 0; i < split.size(); ++i) {
    const StagePrice price = BarePriceOf(static_cast<int>(i), first_layer, split[i].layers);
    longest = std::max(longest, price.tail);
    first_layer += split[i].layers;
  }
  return longest;
}

Seconds MixedPipeline::HopBehind(int stage) const { return hops_[static_cast<std::size_t>(stage)]; }

}  // namespace meshwright
