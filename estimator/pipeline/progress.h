#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/program.h"
#include "search_space/base/units.h"

namespace meshwright {

// When each operation of a pipeline was done, while operations are run one after the other in an
// order that the caller chooses. Its functions are inline, because a simulation calls them for
// every operation.
class PipelineProgress {
 public:
  static constexpr double kNotYet = std::numeric_limits<double>::infinity();

  explicit PipelineProgress(const PipelineProgram& program);

  // Returns when the operation's inputs are there; kNotYet while something that it needs is not
  // done.
  [[nodiscard]] double ReadyAt(const PipelineOperation& op) const {
    switch (op.kind) {
      case OperationKind::kForward:
        return op.chunk == 0 ? 0 : Arrival(op, OperationKind::kForward, op.chunk - 1);
      case OperationKind::kBackward:
        if (op.chunk + 1 == layout_.chunks()) return EndOf(op, OperationKind::kForward, op.chunk);
        // Its own forward ended before the next chunk's.
        return Arrival(op, OperationKind::kBackward, op.chunk + 1);
      case OperationKind::kWeightGradient:
        return EndOf(op, OperationKind::kBackward, op.chunk);
    }
    return kNotYet;
  }

  // Runs the operation as soon as its device is free, at `ready` or later.
  ScheduledOperation Run(const PipelineOperation& op, double ready) {
    const int device = layout_.DeviceOf(op.direction, op.chunk);
    double& clock = free_[static_cast<std::size_t>(device)];
    const double start = std::max(clock, ready);
    const auto kind = static_cast<std::size_t>(op.kind);
    clock = start + durations_[kind][static_cast<std::size_t>(op.chunk)];
    ends_[kind][Slot(op, op.chunk)] = clock;
    return {.device = device,
            .kind = op.kind,
            .direction = op.direction,
            .chunk = op.chunk,
            .micro_batch = op.micro_batch,
            .start = Seconds(start),
            .end = Seconds(clock)};
  }

  [[nodiscard]] double free_at(int device) const { return free_[static_cast<std::size_t>(device)]; }
  // Returns when the last operation so far ended.
  [[nodiscard]] Seconds End() const;
  [[nodiscard]] const PipelineLayout& layout() const { return layout_; }
  [[nodiscard]] int micro_batches(int direction) const {
    return counts_[static_cast<std::size_t>(direction)];
  }

 private:
  [[nodiscard]] std::size_t Slot(const PipelineOperation& op, int chunk) const {
    return static_cast<std::size_t>(op.direction * layout_.chunks() + chunk) * slots_ +
           static_cast<std::size_t>(op.micro_batch);
  }
  [[nodiscard]] double EndOf(const PipelineOperation& op, OperationKind kind, int chunk) const {
    return ends_[static_cast<std::size_t>(kind)][Slot(op, chunk)];
  }
  // The turn of a folded pipeline stays on its device.
  [[nodiscard]] double Arrival(const PipelineOperation& op, OperationKind kind, int from) const {
    const double end = EndOf(op, kind, from);
    if (layout_.StageOf(from) == layout_.StageOf(op.chunk)) return end;
    if (hops_.empty()) return end + message_;
    const Hop& hop = hops_[static_cast<std::size_t>(layout_.StageOf(std::min(from, op.chunk)))];
    return end + (kind == OperationKind::kForward ? hop.forward : hop.backward).count();
  }

  PipelineLayout layout_;
  double message_;
  std::span<const Hop> hops_;  // the program's
  std::vector<int> counts_;    // micro-batches of each direction
  std::size_t slots_ = 0;
  std::vector<double> ends_[3];       // indexed by kind
  std::vector<double> durations_[3];  // indexed by kind, then by chunk
  std::vector<double> free_;          // when each device has done what it was given
};

}  // namespace meshwright
