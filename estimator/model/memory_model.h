#pragma once

#include <optional>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/model/stage_runs.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

// The memory of the device that has least room left, and whether all devices have enough.
struct PlanMemory {
  int fullest = 0;  // stage
  Bytes peak = {};
  Bytes reserved = {};
  Bytes capacity = {};
  bool fits = true;
  bool fits_device = true;  // leaves measured runs out of memory aside
};

// The memory of a plan's stages: as modelled, and as expected after what measured runs have taught.
// Under a schedule of one direction the first of equal neighbours holds most micro-batches, so it
// stands for its run.
class MemoryModel {
 public:
  // The referents of `problem` outlive the model.
  MemoryModel(const EstimatorProblem& problem, const Calibration& calibration);

  [[nodiscard]] PlanMemory Of(const StageRuns& stages) const;
  // Returns the modelled memory of one device.
  [[nodiscard]] StageMemory OfDevice(const StageRuns& stages, int device) const;
  // Returns true if `stage` fits in the place of the stage `index` of a schedule of one direction.
  [[nodiscard]] bool Fits(const StageRuns& stages, const Stage& stage, int index) const;

  // Returns the factor on the modelled memory of a device of `pool`, which is one of the problem's,
  // here and below.
  [[nodiscard]] double RatioOf(const NodePool& pool) const { return LessonsOf(pool).ratio; }
  // Returns what a device of `pool` is expected to show in use.
  [[nodiscard]] Bytes Reserved(const StageMemory& modelled, const NodePool& pool) const;
  // Returns true if a measured plan of this modelled size or less ran out of memory.
  [[nodiscard]] bool HasFailed(const StageMemory& modelled, const NodePool& pool) const;

  // Returns the factor on the modelled memory with which a plan that is expected to show `reserved`
  // fills a device of `pool`. The runtime's own memory does not grow with it.
  [[nodiscard]] double FillingRatio(Bytes reserved, const NodePool& pool) const;

  [[nodiscard]] const StateBytes& state_bytes() const { return state_bytes_; }

 private:
  // The memory that a stage has allocated.
  struct InUse {
    Bytes peak = {};
    Bytes moving = {};  // the part that comes and goes with every micro-batch
  };
  // The smallest plan that ran out of memory (Calibration::out_of_memory).
  struct Failure {
    Bytes reserved = {};
    Bytes capacity = {};
  };
  // The lessons of runs for the devices of a pool.
  struct Lessons {
    double ratio = 1;
    std::vector<Failure> failures = {};
  };

  [[nodiscard]] const Lessons& LessonsOf(const NodePool& pool) const;
  [[nodiscard]] StageMemory OfStage(const StageRuns& stages, const Stage& stage, int index) const;
  [[nodiscard]] StageMemory OfDevice(const StageRuns& stages, const Stage& stage, int device) const;
  [[nodiscard]] static InUse ModelledUse(const StageMemory& memory);
  [[nodiscard]] InUse ExpectedUse(const StageMemory& memory, const NodePool& pool) const;
  [[nodiscard]] Bytes ReservedBy(const InUse& use, const NodePool& pool) const;

  EstimatorProblem problem_;
  StateBytes state_bytes_;
  std::vector<Lessons> lessons_;  // for each pool
  double gaps_per_moving_byte_;   // gaps that the allocator leaves
  Bytes communicators_ = {};      // buffers on every device
};

}  // namespace meshwright
