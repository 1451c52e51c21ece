#pragma once

#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/model/stage_runs.h"
#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/pipeline/program.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

struct ModelCaches;

// The way in which the time of a pipeline is found. kLeast is a lower bound.
enum class PipelineModel { kSimulated, kClosedForm, kLeast };

// The device that takes longest for a micro-batch.
struct SlowestDevice {
  const Stage* stage = nullptr;
  const Stage* other = nullptr;  // stage that takes turns with it, if there are two directions
  Seconds wall = Seconds(0);
  Seconds occupied = Seconds(0);  // `wall` and the messages that nothing runs beside
};

// The time of one micro-batch on a stage.
struct StageSeconds {
  Seconds forward = Seconds(0);
  Seconds backward = Seconds(0);
  Seconds messages = Seconds(0);  // to and from both neighbours
};

// The modelled time of a step and its parts, without the factors that measured runs have taught of
// whole plans. Points to the stages that it was made from.
struct PlanTime {
  PipelineShape shape = {};
  std::vector<Hop> hops = {};  // messages, if they differ (PipelineMessages)
  SlowestDevice slowest = {};
  Seconds pipeline = Seconds(0);
  double stretch = 1;       // how much longer the pipeline takes if others share its devices
  double busy_stretch = 1;  // the same for the slowest device's own work
  StepTail tail = {};       // the longest of all devices
  Seconds step = Seconds(0);
};

// The time of a plan's stages. The functions price layers that the caches do not hold yet.
class TimeModel {
 public:
  // The referents of `problem` outlive the model. Of the calibration, only the lessons of chips
  // count here.
  TimeModel(const EstimatorProblem& problem, const Calibration& calibration);

  [[nodiscard]] PlanTime Of(const StageRuns& stages, PipelineModel model,
                            ModelCaches& caches) const;
  // Divides the step of `time`, which was made from the stages, by cause.
  [[nodiscard]] TimeBreakdown BreakdownOf(const StageRuns& stages, const PlanTime& time,
                                          ModelCaches& caches) const;
  // Returns the times of each stage, as `time` counts them.
  [[nodiscard]] std::vector<StageSeconds> EachStage(const StageRuns& stages, const PlanTime& time,
                                                    ModelCaches& caches) const;
  // Returns every operation of its pipeline, on devices that share no physical ones.
  [[nodiscard]] std::vector<ScheduledOperation> OperationsOf(const StageRuns& stages,
                                                             const PlanTime& time,
                                                             ModelCaches& caches) const;
  // Returns a lower bound of the pipeline that leaves messages out.
  [[nodiscard]] Seconds LeastPipeline(const StageRuns& stages, ModelCaches& caches) const;
  // Returns the factor on the time of stages on these devices that runs on their chip alone have
  // taught; 1 if the problem has one pool.
  [[nodiscard]] double RatioOf(const StageDevices& devices) const;

 private:
  struct StageTimes;

  // Returns the shape of a pipeline whose messages all take `message`.
  [[nodiscard]] PipelineShape ShapeOf(const StageRuns& stages, Seconds message) const;
  // Takes the shape and the hops from `plan`.
  [[nodiscard]] StageTimes TimeStages(const StageRuns& stages, const PlanTime& plan,
                                      ModelCaches& caches) const;

  [[nodiscard]] static Seconds PipelineTimeBy(PipelineModel model, const PlanTime& plan,
                                              const StageTimes& times, ModelCaches& caches);

  EstimatorProblem problem_;
  StateBytes state_bytes_;
  std::vector<double> ratios_;  // RatioOf, for each pool
};

}  // namespace meshwright
