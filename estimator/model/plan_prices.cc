#include "estimator/model/plan_prices.h"

#include "estimator/model/data_parallel.h"
#include "search_space/base/units.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {

PlanPrices::PlanPrices(const ParallelPlan& plan, PipelineModel model, const PricingModels& models) {
  if (plan.replica_groups.empty()) {
    pipelines_.emplace_back(plan, models.problem, models.caches);
  }
  for (std::size_t g = 0; g < plan.replica_groups.size(); ++g) {
    pipelines_.emplace_back(plan, g, models.problem, models.caches).replica_count =
        plan.replica_groups[g].replica_count;
  }
  int stages = 0;
  for (PricedPipeline& pipeline : pipelines_) {
    pipeline.first_stage = stages;
    stages += pipeline.stages.stage_count();
    pipeline.memory = models.memory.Of(pipeline.stages);
    pipeline.time = models.time.Of(pipeline.stages, model, models.caches);
  }
  memory_ = pipelines_.front().memory;
  if (pipelines_.size() > 1) Combine(models);
}

void PlanPrices::Combine(const PricingModels& models) {
  StepTail tail = pipelines_.front().time.tail;
  bool fits = true;
  bool fits_device = true;
  for (std::size_t i = 0; i < pipelines_.size(); ++i) {
    const PricedPipeline& own = pipelines_[i];
    if (own.time.pipeline > slowest().time.pipeline) slowest_ = i;
    if (Sum(own.time.tail) > Sum(tail)) tail = own.time.tail;
    const double use = own.memory.reserved / own.memory.capacity;
    if (use > fullest().memory.reserved / fullest().memory.capacity) fullest_ = i;
    fits = fits && own.memory.fits;
    fits_device = fits_device && own.memory.fits_device;
  }
  memory_ = fullest().memory;
  memory_.fullest += fullest().first_stage;
  memory_.fits = fits;
  memory_.fits_device = fits_device;
  PlanTime& time = pipelines_[slowest_].time;
  time.tail = tail;
  time.step =
      time.pipeline + tail.communication + tail.optimizer + models.problem.profile.fixed_per_step;
}

}  // namespace meshwright
