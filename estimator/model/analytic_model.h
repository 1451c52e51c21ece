#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/learning/calibration.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/pipeline/simulation.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// How many layers of a stage recompute fully and how many, after them, selectively.
struct RecomputeMix {
  int full = 0;
  int selective = 0;
  bool operator==(const RecomputeMix&) const = default;
};

struct MemoryCheck {
  Bytes reserved_memory = {};  // of the stage with least room
  bool fits = false;
  bool fits_device = false;  // whatever ran out of memory before
};

// A step over time, as it is simulated.
struct Timeline {
  std::vector<ScheduledOperation> operations = {};
  Seconds pipeline = Seconds(0);       // the end of the last operation
  Seconds communication = Seconds(0);  // exposed, after it: gradients and parameters
  Seconds optimizer = Seconds(0);
  Seconds fixed = Seconds(0);
  Seconds step = Seconds(0);  // the sum of these four, which is the plan's step time
  bool operator==(const Timeline&) const = default;
};

// The cost model: closed forms of a stage's time and memory, and the exact schedule simulation of
// its pipeline. Costs of one layer are priced once per sharding and kept, so the closed form of a
// further plan of the same question costs about a microsecond. Not for use from several threads at
// once; each thread takes its own.
class AnalyticModel {
 public:
  explicit AnalyticModel(const EstimatorProblem& problem, const Calibration& calibration = {});

  // Both take a legal plan (ResolvePlan, or the search space). The step time and the memory of the
  // two are the same to the last bit. Plans with a pipeline are simulated.
  QuickEstimate Quick(const ParallelPlan& plan);
  // The same with the closed form of the pipeline; of schedules that have none, its least time.
  QuickEstimate ClosedForm(const ParallelPlan& plan);
  // Quick without the time: for searches that look for a plan's least recomputation.
  MemoryCheck CheckMemory(const ParallelPlan& plan);
  // Whether the memory of one stage fits, whatever the others need. Of schedules of one direction.
  bool StageFits(const ParallelPlan& plan, int stage);
  // For each stage the mix, in multiples of the plan's chunks, with which it fits and takes least
  // time; of equal ones that with fewest full layers. Nothing when some stage fits with none. The
  // plan recomputes nothing; its schedule has one direction.
  std::optional<std::vector<RecomputeMix>> FastestMixes(const ParallelPlan& plan);
  // For each stage every mix with which it fits, in such multiples, fastest first; full layers
  // alone where `has_selective` is false. For the same plans.
  std::vector<std::vector<RecomputeMix>> FittingMixes(const ParallelPlan& plan, bool has_selective);
  // A step time that Quick's is not below, when the plan's layers were priced before, for another
  // plan; else nothing, at the cost of a look.
  std::optional<Seconds> LeastTimeIfPriced(const ParallelPlan& plan);
  // What no plan with these parallel sizes, kinds and micro-batch is below, whatever its schedule,
  // split of layers, sharding of states, offload and recomputation. Prices its layers; no time when
  // that depends on the rest.
  std::optional<Seconds> LeastTimeBelow(const ParallelPlan& plan);
  Bytes LeastMemoryBelow(const ParallelPlan& plan, const MostOffloaded& most);
  // Whether that is as much, uncalibrated, as what ran out of memory before.
  bool HasFailedBelow(const ParallelPlan& plan, const MostOffloaded& most);
  // A time that no such plan is below however it shares out the experts and orders the ranks.
  std::optional<Seconds> LeastTimeOfAnyExperts(const ParallelPlan& plan);
  // What no plan is below that also shares the schedule and the split of layers.
  Seconds LeastTimeOfPipeline(const ParallelPlan& plan);
  Estimate Full(const ParallelPlan& plan);
  // Every operation of the step's pipeline, and what follows it.
  Timeline TimelineOf(const ParallelPlan& plan);

  [[nodiscard]] const EstimatorProblem& problem() const { return problem_; }
  [[nodiscard]] const Calibration& calibration() const { return calibration_; }

 private:
  // A simulation adds up as many times as there are operations; its rounding never undercuts this
  // share of the exact bound.
  static constexpr double kRoundingSlack = 1 - 1e-9;

  // How the time of a pipeline is found.
  enum class PipelineModel { kSimulated, kClosedForm, kLeast };

  // What a stage has allocated.
  struct InUse {
    Bytes peak = {};
    Bytes moving = {};  // the part that comes and goes with every micro-batch
  };

  struct TimedDevice;
  struct TimedStage;
  struct Evaluation;
  Evaluation Evaluate(const ParallelPlan& plan, PipelineModel model);
  void BuildRuns(const ParallelPlan& plan);
  [[nodiscard]] Bytes LeastMeanBelow(const ParallelPlan& plan, const MostOffloaded& most,
                                     StageDevices devices) const;
  [[nodiscard]] ModuleSet SelectiveModules(const RecomputePlan& recompute) const;
  void BuildMixedRuns(const ParallelPlan& plan);
  const StageDevices* Append(const StageDevices& devices);
  void Append(const Stage& stage);
  const std::vector<int>& DefaultSplit(int stage_count);
  [[nodiscard]] int MicroBatches() const;  // of the plan in runs_
  void EvaluateTime(const ParallelPlan& plan, PipelineModel model, Evaluation& e);
  void TimeStages(Evaluation& e);
  void TimeDevices(const std::vector<TimedStage>& stages, Evaluation& e);
  [[nodiscard]] PipelineProgram ProgramOf(const PipelineShape& shape);
  // Of each stage, from its run; until the next call.
  [[nodiscard]] std::span<const StageWork> StageWorks();
  void Share(const ParallelPlan& plan, Evaluation& e) const;  // where devices share physical ones
  [[nodiscard]] Seconds PipelineTimeBy(PipelineModel model, const Evaluation& e);
  Evaluation EvaluateMemory(const ParallelPlan& plan);
  [[nodiscard]] bool FitsAt(const ParallelPlan& plan, const Stage& stage, int index) const;
  [[nodiscard]] std::vector<RecomputeMix> LeastMixes(const ParallelPlan& plan, Stage stage,
                                                     int index) const;
  [[nodiscard]] Seconds WallOf(Stage stage, const RecomputeMix& mix) const;
  [[nodiscard]] StageMemory MemoryOfStage(const ParallelPlan& plan, const Stage& stage, int index,
                                          int micro_batches) const;
  [[nodiscard]] StageMemory MemoryOfDevice(const ParallelPlan& plan, const Stage& stage, int device,
                                           int micro_batches) const;
  [[nodiscard]] const Stage& StageAt(int index) const;
  // A step that has at least this much of its pipeline.
  Seconds Bound(const ParallelPlan& plan, Seconds pipeline);
  Seconds EvenWork(const ParallelPlan& plan, Seconds whole_model);
  double TimeRatio(const ParallelPlan& plan);
  [[nodiscard]] int StageTotal() const { return runs_.back().first + runs_.back().count; }
  [[nodiscard]] UnitCosts& UnitsOf(const LayerSharding& sharding, int pool, ModuleSet selective);
  [[nodiscard]] UnitCosts& UnitsOf(const StageDevices& devices);
  [[nodiscard]] int PoolOf(const StageDevices& devices) const;
  [[nodiscard]] LayerSite SiteOf(const StageDevices& devices);
  [[nodiscard]] StageDevices BareDevices(const ParallelPlan& plan) const;
  [[nodiscard]] Seconds WholeModel(const UnitTimes& unit) const;
  [[nodiscard]] LayerContext ContextOf(const LayerSharding& sharding) const;
  void PriceRuns();
  void FillRates(const ParallelPlan& plan, Estimate& estimate) const;
  // The first as modelled, the second as expected after what runs have taught.
  [[nodiscard]] static InUse ModelledUse(const StageMemory& memory);
  [[nodiscard]] InUse ExpectedUse(const StageMemory& memory) const;
  [[nodiscard]] Bytes Reserved(const InUse& use, const NodePool& pool) const;
  // Whether history has a plan of this modelled size or less that ran out of memory.
  [[nodiscard]] bool HasFailed(const StageMemory& modelled, const NodePool& pool) const;
  [[nodiscard]] PipelineShape ShapeOf(const ParallelPlan& plan, int micro_batches) const;
  [[nodiscard]] int MessageShards(const StageDevices& from) const;
  [[nodiscard]] Seconds GatherShards(Bytes whole, int shards, const StageDevices& to) const;
  [[nodiscard]] Seconds InterPoolMessageTime(const StageDevices& from,
                                             const StageDevices& to) const;
  [[nodiscard]] Seconds MessageTime(const StageDevices& from, bool is_mixed) const;
  [[nodiscard]] Seconds SlowestMessage(const ParallelPlan& plan) const;
  void FillBreakdown(const Evaluation& evaluation, Estimate& estimate) const;
  void FillStages(const ParallelPlan& plan, const Evaluation& evaluation, Estimate& estimate) const;

  struct UnitKey {
    LayerSharding sharding;
    int pool;
    ModuleSet selective;
    bool operator==(const UnitKey&) const = default;

    template <typename H>
    friend H AbslHashValue(H hash, const UnitKey& key) {
      return H::combine(std::move(hash), key.sharding, key.pool, key.selective);
    }
  };

  EstimatorProblem problem_;
  Calibration calibration_;
  double model_flops_per_token_ = 0;
  ModuleSet default_modules_ = 0;  // of selective recomputation
  StateBytes state_bytes_ = {};
  double gaps_per_moving_byte_ = 0;                                 // of the allocator
  Bytes communicators_ = {};                                        // buffers on every device
  std::vector<MatmulTimes> matmuls_;                                // of each pool
  absl::flat_hash_map<UnitKey, std::unique_ptr<UnitCosts>> units_;  // looked up only, never walked
  std::optional<std::pair<UnitKey, UnitCosts*>> last_unit_;  // neighbours in a search share it
  // One micro-batch through the whole model on one device after the other, and what it is not below
  // whatever its experts: most shardings of a search are found too slow by these, and need no more.
  std::map<LayerSharding, Seconds> whole_models_;
  std::map<LayerSharding, Seconds> least_whole_models_;
  std::vector<std::vector<int>> splits_;  // by number of stages; empty where none was asked for
  // Scratch space that evaluations reuse.
  std::vector<StageDevices> devices_;  // of the stages in runs_, which point here
  std::vector<StageRun> runs_;
  std::vector<OccupiedRun> occupied_;
  std::vector<StageWork> works_;  // of each stage
  PipelineSimulator simulator_;
  std::optional<std::pair<PlanPoint, double>> last_ratio_;  // neighbours in a search share it
};

// Forward FLOPs of one token: GEMMs of the active parameters, output layer included, and causal
// attention. Model FLOPs of training are three times that (docs/glossary.md, MFU).
double ForwardFlopsPerToken(const EstimatorProblem& problem);

}  // namespace meshwright
