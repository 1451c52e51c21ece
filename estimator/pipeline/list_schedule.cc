#include "estimator/pipeline/list_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/pipeline/progress.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Returns the forward and backward passes of a device of ZB-V in the order of its building block
// (arXiv 2405.15362): six passes of equal length for each micro-batch. A forward pass takes one of
// them to the next device on its way down and five on its way back, and so does a backward pass, so
// that those of a device never meet, and devices hold p micro-batches each.
std::vector<PipelineOperation> FoldedPasses(const PipelineLayout& layout, int device,
                                            int micro_batches) {
  const int p = layout.devices;
  const int folded = layout.chunks() - 1 - device;
  struct Stream {
    OperationKind kind;
    int chunk;
    int at;  // when the next micro-batch's turn is
    int done = 0;
  };
  Stream streams[] = {{OperationKind::kForward, device, device},
                      {OperationKind::kForward, folded, p + 5 * (p - 1 - device)},
                      {OperationKind::kBackward, folded, 6 * p - 4 + device},
                      {OperationKind::kBackward, device, 12 * p - 9 - 5 * device}};
  std::vector<PipelineOperation> passes;
  passes.reserve(4 * static_cast<std::size_t>(micro_batches));
  for (int left = 4 * micro_batches; left > 0; --left) {
    Stream* next = nullptr;
    for (Stream& stream : streams) {
      if (stream.done < micro_batches && (next == nullptr || stream.at < next->at)) next = &stream;
    }
    passes.push_back({.kind = next->kind, .chunk = next->chunk, .micro_batch = next->done});
    ++next->done;
    next->at += 6;
  }
  return passes;
}

class ListSchedule {
 public:
  explicit ListSchedule(PipelineProgress& progress)
      : progress_(progress), layout_(progress.layout()) {
    const int chunks = layout_.directions() * layout_.chunks();
    for (auto& done : done_) done.assign(static_cast<std::size_t>(chunks), 0);
    if (layout_.schedule != Schedule::kZbV) return;
    for (int device = 0; device < layout_.devices; ++device) {
      passes_.push_back(FoldedPasses(layout_, device, progress.micro_batches(0)));
    }
    next_.assign(passes_.size(), 0);
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
        const Choice choice = passes_.empty() ? Best(device) : BestOfFold(device);
        if (choice.start < best.start) best = choice;
      }
      if (best.start == PipelineProgress::kNotYet) {
        std::abort();  // every schedule ends; a bug of ours
      }
      ++Done(best.op.kind, best.op.direction, best.op.chunk);
      progress_.Run(best.op, best.start);
      const auto device =
          static_cast<std::size_t>(layout_.DeviceOf(best.op.direction, best.op.chunk));
      orders[device].push_back(best.op);
      if (!next_.empty() && best.op.kind != OperationKind::kWeightGradient) ++next_[device];
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

  // Returns the device's next pass or, if that would have to wait, a weight gradient.
  Choice BestOfFold(int device) {
    const auto at = static_cast<std::size_t>(device);
    Choice best;
    int held = 0;
    for (const int chunk : {device, layout_.chunks() - 1 - device}) {
      held +=
          Done(OperationKind::kForward, 0, chunk) - Done(OperationKind::kWeightGradient, 0, chunk);
    }
    if (next_[at] < passes_[at].size()) {
      const PipelineOperation& op = passes_[at][next_[at]];
      const bool is_full =
          op.kind == OperationKind::kForward && held >= 2 * layout_.Capacity(op.chunk);
      if (!is_full) best = {.op = op, .start = StartOf(op, device)};
    }
    if (best.start <= progress_.free_at(device)) return best;
    const Choice gradient = OldestGradient(device);
    return gradient.start < best.start ? gradient : best;
  }

  // Returns the weight gradient of the device's earliest backward pass that has none yet.
  Choice OldestGradient(int device) {
    Choice oldest;
    double earliest = PipelineProgress::kNotYet;
    for (const int chunk : {device, layout_.chunks() - 1 - device}) {
      const int k = Done(OperationKind::kWeightGradient, 0, chunk);
      if (k == Done(OperationKind::kBackward, 0, chunk)) continue;
      const PipelineOperation op = {
          .kind = OperationKind::kWeightGradient, .chunk = chunk, .micro_batch = k};
      if (progress_.ReadyAt(op) >= earliest) continue;
      earliest = progress_.ReadyAt(op);
      oldest = {.op = op, .start = StartOf(op, device)};
    }
    return oldest;
  }

  [[nodiscard]] double StartOf(const PipelineOperation& op, int device) const {
    return std::max(progress_.ReadyAt(op), progress_.free_at(device));
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
  std::vector<std::vector<PipelineOperation>> passes_;  // of each device, if their order is fixed
  std::vector<std::size_t> next_;                       // the first that was not run
};

}  // namespace

PipelineOrders ListOrders(const PipelineProgram& program) {
  PipelineProgress progress(program);
  return ListSchedule(progress).Run();
}

}  // namespace meshwright
