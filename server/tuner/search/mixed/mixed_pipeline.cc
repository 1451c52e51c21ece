#include "server/tuner/search/mixed/mixed_pipeline.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimator/model/memory_model.h"
#include "estimator/model/pipeline_messages.h"
#include "estimator/model/stage_runs.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/workload.h"

namespace meshwright {

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
  const ParallelPlan plan = EvenPlanOf(shape, problem);
  time_ratio_ = model.TimeRatio(plan);
  TakeMessages(plan, model);
}

void MixedPipeline::TakeMessages(const ParallelPlan& plan, AnalyticModel& model) {
  const EstimatorProblem& problem = model.problem();
  const StageRuns runs = model.StagesOf(plan);
  const PipelineMessages messages = MessagesOf(runs, problem);
  const auto p = static_cast<std::size_t>(stages());
  const Hop each = {.forward = messages.each, .backward = messages.each};
  std::vector<Hop> behind = messages.hops;
  if (behind.empty()) behind.assign(p - 1, each);
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
  tied_ = TiedGradientsTime(runs, model.memory().state_bytes().reduced_gradient, problem);
}

StagePrice MixedPipeline::PriceOf(int stage, int first_layer, int layers) const {
  const auto i = static_cast<std::size_t>(stage);
  const int p = stages();
  const PricedPlace place = {.is_first = stage == 0,
                             .is_last = stage + 1 == p,
                             .in_flight = std::min(micro_batches_, p - stage),
                             .first_layer = first_layer};
  StagePrice price = prices_[static_cast<std::size_t>(stretch_of_[i])]->Of(place, layers);
  price.forward += occupying_[i].forward;
  price.backward += occupying_[i].backward;
  if (place.is_first || place.is_last) price.tail += tied_;
  return price;
}

Seconds MixedPipeline::HopBehind(int stage) const { return hops_[static_cast<std::size_t>(stage)]; }

}  // namespace meshwright
