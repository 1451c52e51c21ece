#pragma once

#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/learning/uncertainty.h"
#include "estimator/model/memory_model.h"
#include "estimator/model/model_caches.h"
#include "estimator/model/plan_prices.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "estimator/pipeline/operation.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"

namespace meshwright {

struct MemoryCheck {
  Bytes reserved_memory = {};  // memory in use on the stage that has least room left
  bool fits = false;
  bool fits_device = false;  // leaves measured runs out of memory aside
};

// A step over time, as it is simulated.
struct Timeline {
  std::vector<ScheduledOperation> operations = {};
  Seconds pipeline = Seconds(0);       // the end of the last operation
  Seconds communication = Seconds(0);  // exposed, after the pipeline: gradients and parameters
  Seconds optimizer = Seconds(0);
  Seconds fixed = Seconds(0);
  Seconds step = Seconds(0);  // the sum of these four, which is the plan's step time
  bool operator==(const Timeline&) const = default;
};

// The cost model: closed forms of a stage's time and memory, and the exact simulation of its
// pipeline's schedule. It makes StageRuns of a plan, and puts together what MemoryModel and
// TimeModel say of them. An estimate depends on the plan only; the caches decide how fast it comes:
// the closed form of a plan whose layers were priced before takes about a microsecond. Estimates
// fill the caches and are therefore not const, so that a const model can be shared between threads.
// Not for use from several threads at once; each thread takes a model of its own.
//
// All plans are legal (ResolvePlan, or the search space).
class AnalyticModel {
 public:
  // The referents of `problem` outlive the model.
  explicit AnalyticModel(const EstimatorProblem& problem, const Calibration& calibration = {});

  // Returns the step time, with the pipeline simulated, and the memory: those of Full to the last
  // bit.
  QuickEstimate Quick(const ParallelPlan& plan);
  // Returns the same with the closed form of the pipeline, or its least time if its schedule has no
  // closed form.
  QuickEstimate ClosedForm(const ParallelPlan& plan);
  // Returns the memory of Quick.
  MemoryCheck CheckMemory(const ParallelPlan& plan);
  Estimate Full(const ParallelPlan& plan);
  // Returns how far the plan's step time may be from `estimate`, in a form that shows what it
  // shares with other plans. The estimate may hold times of a vendor's model.
  TimeUncertainty UncertaintyOf(const ParallelPlan& plan, const Estimate& estimate);
  // Returns every operation of the step's pipeline, and what follows it.
  Timeline TimelineOf(const ParallelPlan& plan);

  [[nodiscard]] const EstimatorProblem& problem() const { return problem_; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_; }

  // The parts, for PlanBounds and RecomputeMixes, which know no replica groups.
  StageRuns StagesOf(const ParallelPlan& plan);
  // Returns the factor on the plan's step time that measured runs have taught.
  double TimeRatio(const ParallelPlan& plan);
  [[nodiscard]] const MemoryModel& memory() const { return memory_; }
  [[nodiscard]] const TimeModel& time() const { return time_; }
  ModelCaches& caches() { return caches_; }

 private:
  QuickEstimate QuickBy(PipelineModel model, const ParallelPlan& plan);
  [[nodiscard]] PlanPrices Priced(const ParallelPlan& plan, PipelineModel model);
  void FillStages(const ParallelPlan& plan, const PlanPrices& priced, Estimate& estimate);
  void FillRates(const ParallelPlan& plan, const PlanPrices& priced, Estimate& estimate) const;

  EstimatorProblem problem_;
  Calibration calibration_;
  MemoryModel memory_;
  TimeModel time_;
  double model_flops_per_token_;
  ModelCaches caches_;
};

}  // namespace meshwright
