#include "estimator/model/memory_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "estimator/model/stage.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {
namespace {

Bytes Part(const StageMemory& memory, MemoryKind kind) {
  return memory.breakdown[static_cast<std::size_t>(kind)];
}

}  // namespace

MemoryModel::MemoryModel(const EstimatorProblem& problem, const Calibration& calibration)
    : problem_(problem),
      state_bytes_(BytesPerParameter(problem.workload, problem.profile)),
      gaps_per_moving_byte_(1 / problem.profile.allocator_efficiency - 1) {
  if (DeviceCount(problem.cluster) > 1) {
    communicators_ = problem.profile.communicator_buffers_in_node;
  }
  const auto add_failure = [](const std::optional<FailedRun>& run, Lessons& lessons) {
    if (!run.has_value()) return;
    lessons.failures.push_back(
        {.reserved = run->reserved_memory, .capacity = run->memory_capacity});
  };
  for (const NodePool& pool : problem.cluster.pools) {
    Lessons& lessons = lessons_.emplace_back();
    lessons.ratio = calibration.memory_ratio;
    add_failure(calibration.out_of_memory, lessons);
    const ChipLesson* of_chip = LessonOf(calibration, pool.chip.id);
    if (of_chip == nullptr) continue;
    lessons.ratio *= of_chip->memory_ratio;
    add_failure(of_chip->out_of_memory, lessons);
  }
}

const MemoryModel::Lessons& MemoryModel::LessonsOf(const NodePool& pool) const {
  return lessons_[static_cast<std::size_t>(&pool - problem_.cluster.pools.data())];
}

MemoryModel::InUse MemoryModel::ModelledUse(const StageMemory& memory) {
  return {.peak = memory.peak,
          .moving = Part(memory, MemoryKind::kActivations) + Part(memory, MemoryKind::kTransient)};
}

MemoryModel::InUse MemoryModel::ExpectedUse(const StageMemory& memory, const NodePool& pool) const {
  const double ratio = RatioOf(pool);
  return {.peak = Scale(memory.peak, ratio),
          .moving = Scale(Part(memory, MemoryKind::kActivations), ratio) +
                    Scale(Part(memory, MemoryKind::kTransient), ratio)};
}

// States are allocated once and fill their blocks; what comes and goes leaves gaps.
Bytes MemoryModel::ReservedBy(const InUse& use, const NodePool& pool) const {
  Bytes reserved = use.peak + Scale(use.moving, gaps_per_moving_byte_) + pool.chip.runtime_context +
                   communicators_;
  if (pool.node_count > 1) reserved += problem_.profile.communicator_buffers_across_nodes;
  return reserved;
}

Bytes MemoryModel::Reserved(const StageMemory& modelled, const NodePool& pool) const {
  return ReservedBy(ExpectedUse(modelled, pool), pool);
}

double MemoryModel::FillingRatio(Bytes reserved, const NodePool& pool) const {
  const Bytes fixed = ReservedBy({}, pool);
  return (pool.memory_capacity - fixed) / (reserved - fixed);
}

bool MemoryModel::HasFailed(const StageMemory& modelled, const NodePool& pool) const {
  return std::ranges::any_of(LessonsOf(pool).failures, [&](const Failure& failure) {
    return pool.memory_capacity <= failure.capacity &&
           ReservedBy(ModelledUse(modelled), pool) >= failure.reserved;
  });
}

StageMemory MemoryModel::OfStage(const StageRuns& stages, const Stage& stage, int index) const {
  const double in_flight = InFlight(stages.schedule(), index, stages.stage_count(),
                                    stages.virtual_stages(), stages.micro_batches());
  return MemoryOf(stage, in_flight, state_bytes_, problem_);
}

// A device of two directions holds a stage of each, `stage` in the first. What comes and goes and
// what the framework keeps serve both.
StageMemory MemoryModel::OfDevice(const StageRuns& stages, const Stage& stage, int device) const {
  StageMemory memory = OfStage(stages, stage, device);
  if (stage.devices->directions == 1) return memory;
  const int other_index = stages.stage_count() - 1 - device;
  const StageMemory other = OfStage(stages, stages.StageAt(other_index), other_index);
  memory.peak = {};
  for (std::size_t i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const bool serves_both = kind == MemoryKind::kTransient || kind == MemoryKind::kFrameworkCache;
    Bytes& part = memory.breakdown[i];
    part = serves_both ? std::max(part, other.breakdown[i]) : part + other.breakdown[i];
    memory.peak += part;
  }
  return memory;
}

StageMemory MemoryModel::OfDevice(const StageRuns& stages, int device) const {
  return OfDevice(stages, stages.StageAt(device), device);
}

bool MemoryModel::Fits(const StageRuns& stages, const Stage& stage, int index) const {
  const StageMemory modelled = OfStage(stages, stage, index);
  const NodePool& pool = *stage.devices->pool;
  return Reserved(modelled, pool) <= pool.memory_capacity && !HasFailed(modelled, pool);
}

PlanMemory MemoryModel::Of(const StageRuns& stages) const {
  PlanMemory plan;
  std::optional<double> worst_use;
  for (const StageRun& run : stages.runs()) {
    const NodePool& pool = *run.stage.devices->pool;
    const int devices = run.stage.devices->directions == 2 ? run.count : 1;
    for (int device = run.first; device < run.first + devices; ++device) {
      const StageMemory modelled = OfDevice(stages, run.stage, device);
      const InUse expected = ExpectedUse(modelled, pool);
      const Bytes reserved = ReservedBy(expected, pool);
      const Bytes capacity = pool.memory_capacity;
      plan.fits_device = plan.fits_device && reserved <= capacity;
      plan.fits = plan.fits && reserved <= capacity && !HasFailed(modelled, pool);
      const double use = reserved / capacity;
      if (worst_use.has_value() && use <= *worst_use) continue;
      worst_use = use;
      plan.fullest = device;
      plan.peak = expected.peak;
      plan.reserved = reserved;
      plan.capacity = capacity;
    }
  }
  return plan;
}

}  // namespace meshwright
