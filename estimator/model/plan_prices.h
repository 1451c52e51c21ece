#pragma once

#include <cstddef>
#include <deque>

#include "estimator/model/memory_model.h"
#include "estimator/model/model_caches.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// One pipeline of a plan, priced: that of a replica of one group, or of all replicas.
struct PricedPipeline {
  PricedPipeline(const ParallelPlan& plan, const EstimatorProblem& problem, ModelCaches& caches)
      : stages(plan, problem, caches.units, caches.splits) {}
  PricedPipeline(const ParallelPlan& plan, std::size_t group, const EstimatorProblem& problem,
                 ModelCaches& caches)
      : stages(plan, group, problem, caches.units) {}

  StageRuns stages;
  int replica_count = 1;
  int first_stage = 0;  // place of its first stage among those of all pipelines
  PlanMemory memory = {};
  PlanTime time = {};
};

// The parts of the cost model that price a plan.
struct PricingModels {
  const EstimatorProblem& problem;
  const MemoryModel& memory;
  const TimeModel& time;
  ModelCaches& caches;
};

// A plan with the price of each of its pipelines. The replicas of all groups run side by side, and
// their gradients are added up when the slowest has ended: docs/cost_model/data_parallel.md
// "Replicas that differ".
class PlanPrices {
 public:
  PlanPrices(const ParallelPlan& plan, PipelineModel model, const PricingModels& models);

  [[nodiscard]] const std::deque<PricedPipeline>& pipelines() const { return pipelines_; }
  // The pipeline that ends last. Its time has what follows the pipelines of all replicas.
  [[nodiscard]] const PricedPipeline& slowest() const { return pipelines_[slowest_]; }
  // The pipeline of the stage that has least room left.
  [[nodiscard]] const PricedPipeline& fullest() const { return pipelines_[fullest_]; }
  // The memory of that stage, with its place among the stages of all pipelines.
  [[nodiscard]] const PlanMemory& memory() const { return memory_; }

 private:
  void Combine(const PricingModels& models);

  std::deque<PricedPipeline> pipelines_;  // stages point into their pipeline
  std::size_t slowest_ = 0;
  std::size_t fullest_ = 0;
  PlanMemory memory_ = {};
};

}  // namespace meshwright
