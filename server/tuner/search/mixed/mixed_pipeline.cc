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

bool SendsBesideWork(const EstimatorProblem& problem) {
  return problem.workload.overlap.pipeline_p2p && !problem.profile.overlaps_only_interleaved_sends;
}

MixedPipeline::MixedPipeline(const MixedShape& shape, std::vector<StagePrices*> prices,
                             std::span<const StretchHops> hops, const Problem& problem,
                             AnalyticModel& model)
    : layers_(problem.model.layer_count),
      micro_batches_(problem.workload.global_batch_size / shape.shared.sequences),
      fixed_(problem.profile.fixed_per_step),
      prices_(std::move(prices)) {
  std::vector<Hop> behind;  // each stage but the last
  for (std::size_t i = 0; i < shape.stretches.size(); ++i) {
    const auto stages = static_cast<std::size_t>(shape.stretches[i].stages);
    stretch_of_.insert(stretch_of_.end(), stages, static_cast<int>(i));
    behind.insert(behind.end(), stages - 1, hops[i].inside);
    behind.push_back(hops[i].behind);
  }
  behind.pop_back();
  // Nothing that was learnt of a plan depends on the split of its layers.
  const bool has_learnt = !model.calibration().time.points.empty();
  time_ratio_ =
      has_learnt ? model.TimeRatio(EvenPlanOf(shape, problem)) : model.calibration().time_ratio;
  PlaceMessages(behind, model.problem());
  tied_ = TiedGradientsTime(prices_.front()->devices(), prices_.back()->devices(),
                            model.memory().state_bytes().reduced_gradient, model.problem());
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
  tied_ = TiedGradientsTime(runs.devices().front(), runs.devices().back(),
                            model.memory().state_bytes().reduced_gradient, problem);
}

MixedPipeline MixedPipeline::With(int micro_batches, Seconds end) const {
  MixedPipeline pipeline = *this;
  pipeline.micro_batches_ = micro_batches;
  pipeline.end_ = end;
  return pipeline;
}

void MixedPipeline::PlaceMessages(const std::vector<Hop>& behind, const EstimatorProblem& problem) {
  const auto p = static_cast<std::size_t>(stages());
  const bool overlaps = SendsBesideWork(problem);
  hops_.assign(p, Seconds(0));
  occupying_.assign(p, Hop());
  for (std::size_t i = 0; i < p; ++i) {
    const Hop before = i > 0 ? behind[i - 1] : Hop();
    const Hop after = i + 1 < p ? behind[i] : Hop();
    if (overlaps) {
      hops_[i] = Sum(after);
    } else {
      occupying_[i] = LongerOf(before, after);
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
