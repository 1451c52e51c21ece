#include "estimator/pipeline/list_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/progress.h"

namespace meshwright {
namespace {

class ListSchedule {
 public:
  explicit ListSchedule(PipelineProgress& progress)
      : progress_(progress), layout_(progress.layout()) {
    const int chunks = layout_.directions() * layout_.chunks();
    for (auto& done : done_) done.assign(static_cast<std::size_t>(chunks), 0);
  }

  PipelineOrders Run() {
    PipelineOrders orders(static_cast<std::size_t>(layout_.devices));
    int left = 0;
    for (int d = 0; d < layout_.directions(); ++d) {
      left += progress_.micro_batches(d) * layout_.chunks() * (layout_.SplitsBackward() ? 3 : 2);
    }
    for (; left > 0; --left) {
      Choice best;
      for (int device = 0; device < layout_.devices; ++device) {
        const Choice choice = Best(device);
        if (choice.start < best.start) best = choice;
      }
      if (best.start == PipelineProgress::kNotYet) {
        std::abort();  // every schedule ends; a bug of ours
      }
      ++Done(best.op.kind, best.op.direction, best.op.chunk);
      progress_.Run(best.op, best.start);
      const int device = layout_.DeviceOf(best.op.direction, best.op.chunk);
      orders[static_cast<std::size_t>(device)].push_back(best.op);
    }
    return orders;
  }

 private:
  struct Choice {
    PipelineOperation op = {};
    double start = PipelineProgress::kNotYet;
  };

  int& Done(OperationKind kind, int direction, int chunk) {
    const int at = direction * layout_.chunks() + chunk;
    return done_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(at)];
  }

  bool MayEnter(int direction, int chunk) {
    const OperationKind last =
        layout_.SplitsBackward() ? OperationKind::kWeightGradient : OperationKind::kBackward;
    return Done(OperationKind::kForward, direction, chunk) - Done(last, direction, chunk) <
           layout_.Capacity(chunk);
  }

  // Returns the first in order of preference among what can start soonest.
  Choice Best(int device) {
    Choice best;
    for (const OperationKind kind :
         {OperationKind::kBackward, OperationKind::kForward, OperationKind::kWeightGradient}) {
      if (kind == OperationKind::kWeightGradient && !layout_.SplitsBackward()) continue;
      for (int d = 0; d < layout_.directions(); ++d) {
        for (int slice = layout_.chunks_per_device - 1; slice >= 0; --slice) {
          Consider(kind, d, ChunkOn(device, d, slice), device, best);
        }
      }
    }
    return best;
  }

  // Returns the chunk of the device that is its `slice`-th on the way.
  [[nodiscard]] int ChunkOn(int device, int direction, int slice) const {
    const int stage = direction == 0 ? device : layout_.devices - 1 - device;
    return slice == 0 ? stage : layout_.chunks() - 1 - stage;  // folded
  }

  void Consider(OperationKind kind, int direction, int chunk, int device, Choice& best) {
    const int k = Done(kind, direction, chunk);
    if (k == progress_.micro_batches(direction)) return;
    if (kind == OperationKind::kForward && !MayEnter(direction, chunk)) return;
    const PipelineOperation op = {
        .kind = kind, .direction = direction, .chunk = chunk, .micro_batch = k};
    const double start = std::max(progress_.ReadyAt(op), progress_.free_at(device));
    // The other direction has done less.
    const bool is_behind = start == best.start && kind == best.op.kind &&
                           direction != best.op.direction && k < best.op.micro_batch;
    if (start < best.start || is_behind) best = {.op = op, .start = start};
  }

  PipelineProgress& progress_;
  const PipelineLayout& layout_;
  std::vector<int> done_[3];  // indexed by kind, then by chunk of each direction
};

}  // namespace

PipelineOrders ListOrders(const PipelineProgram& program) {
  PipelineProgress progress(program);
  return ListSchedule(progress).Run();
}

}  // namespace meshwright
