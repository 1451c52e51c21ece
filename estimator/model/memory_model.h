#pragma once

#include <optional>

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
  // Returns whether `stage` fits in the place of the stage `index` of a schedule of one direction.
  [[nodiscard]] bool Fits(const StageRuns& stages, const Stage& stage, int index) const;

  // Returns what a device of `pool` is expected to show in use.
  [[nodiscard]] Bytes Reserved(const StageMemory& modelled, const NodePool& pool) const;
  // Returns whether a measured plan of this modelled size or less ran out of memory.
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

  [[nodiscard]] StageMemory OfStage(const StageRuns& stages, const Stage& stage, int index) const;
  [[nodiscard]] StageMemory OfDevice(const StageRuns& stages, const Stage& stage, int device) const;
  [[nodiscard]] static InUse ModelledUse(const StageMemory& memory);
  [[nodiscard]] InUse ExpectedUse(const StageMemory& memory) const;
  [[nodiscard]] Bytes ReservedBy(const InUse& use, const NodePool& pool) const;

  EstimatorProblem problem_;
  StateBytes state_bytes_;
  double ratio_;                 // learnt from runs
  double gaps_per_moving_byte_;  // gaps that the allocator leaves
  Bytes communicators_ = {};     // buffers on every device
  std::optional<Failure> failure_ = {};
};

}  // namespace meshwright
