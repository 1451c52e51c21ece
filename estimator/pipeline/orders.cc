#include "estimator/pipeline/orders.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "estimator/pipeline/list_schedule.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr double kParts = 64;  // parts of the mean stage's work

// Returns the number of forwards that a device runs before its first backward: Megatron-Core's
// get_pp_rank_microbatches. An interleaved schedule runs chunk by chunk, p micro-batches each.
int WarmUp(const PipelineLayout& layout, int device, int forwards) {
  if (layout.schedule == Schedule::kGpipe) return forwards;
  const int behind = layout.devices - device - 1;
  if (layout.schedule != Schedule::kInterleaved1f1b) return std::min(forwards, behind);
  return std::min(forwards, 2 * behind + (layout.chunks_per_device - 1) * layout.devices);
}

// Returns the k-th forward, or backward, of a device: groups of p micro-batches go through its
// chunks in turn, backwards from the last.
PipelineOperation Nth(const PipelineLayout& layout, int device, OperationKind kind, int k,
                      int micro_batches) {
  const int v = layout.chunks_per_device;
  const int p = layout.devices;
  if (v == 1) return {.kind = kind, .chunk = device, .micro_batch = k};
  const int group = k / (p * v);
  const int size = std::min(p, micro_batches - group * p);  // the last may be smaller
  const int within = k - group * p * v;
  const int turn = within / size;
  const int slice = kind == OperationKind::kForward ? turn : v - 1 - turn;
  return {.kind = kind, .chunk = slice * p + device, .micro_batch = group * p + within % size};
}

PipelineOrders MegatronOrders(const PipelineLayout& layout, int micro_batches) {
  PipelineOrders orders(static_cast<std::size_t>(layout.devices));
  const int each = micro_batches * layout.chunks_per_device;
  for (int device = 0; device < layout.devices; ++device) {
    std::vector<PipelineOperation>& order = orders[static_cast<std::size_t>(device)];
    order.reserve(2 * static_cast<std::size_t>(each));
    const int warm_up = WarmUp(layout, device, each);
    for (int forwards = 0, backwards = 0; backwards < each;) {
      const bool is_forward = forwards < each && forwards - backwards <= warm_up;
      order.push_back(
          is_forward ? Nth(layout, device, OperationKind::kForward, forwards++, micro_batches)
                     : Nth(layout, device, OperationKind::kBackward, backwards++, micro_batches));
    }
  }
  return orders;
}

// 1F1B, whose stage i puts off its weight gradients by i micro-batches, so that all stages hold p
// of them (ZB-H1, arXiv 2401.10241).
PipelineOrders ZeroBubbleOrders(int stages, int micro_batches) {
  PipelineOrders orders(static_cast<std::size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<PipelineOperation>& order = orders[static_cast<std::size_t>(stage)];
    order.reserve(3 * static_cast<std::size_t>(micro_batches));
    const auto add = [&](OperationKind kind, int k) {
      order.push_back({.kind = kind, .chunk = stage, .micro_batch = k});
    };
    int forwards = 0;
    int gradients = 0;
    for (int backwards = 0; backwards < micro_batches; ++backwards) {
      const int ahead = std::min(micro_batches, backwards + stages - stage);
      while (forwards < ahead) add(OperationKind::kForward, forwards++);
      add(OperationKind::kBackward, backwards);
      if (backwards - gradients >= stage) add(OperationKind::kWeightGradient, gradients++);
    }
    while (gradients < micro_batches) add(OperationKind::kWeightGradient, gradients++);
  }
  return orders;
}

}  // namespace

Proportions ProportionsOf(const PipelineProgram& program) {
  if (HasFixedOrder(program.schedule) || program.schedule == Schedule::kZbH1) return {};
  StageWork sum;
  for (const StageWork& stage : program.stages) {
    sum.forward += stage.forward;
    sum.backward += stage.backward;
    sum.weight_gradient += stage.weight_gradient;
  }
  const Seconds whole = sum.forward + sum.backward;
  if (whole.count() <= 0) return {};
  const auto part = [&](Seconds time) {
    return std::max(1, static_cast<int>(std::lround(kParts * (time / whole))));
  };
  return {.forward = part(sum.forward),
          .backward = part(sum.backward - sum.weight_gradient),
          .weight_gradient = part(sum.weight_gradient)};
}

PipelineOrders OrdersOf(const PipelineProgram& program, const Proportions& proportions) {
  if (HasFixedOrder(program.schedule)) {
    return MegatronOrders(
        LayoutOf(program.schedule, static_cast<int>(program.stages.size()), program.virtual_stages),
        program.micro_batches);
  }
  if (program.schedule == Schedule::kZbH1) {
    return ZeroBubbleOrders(static_cast<int>(program.stages.size()), program.micro_batches);
  }
  const StageWork mean = {.forward = Seconds(proportions.forward),
                          .backward = Seconds(proportions.backward + proportions.weight_gradient),
                          .weight_gradient = Seconds(proportions.weight_gradient)};
  const std::vector<StageWork> stages(program.stages.size(), mean);
  return ListOrders(
      {.schedule = program.schedule, .micro_batches = program.micro_batches, .stages = stages});
}

}  // namespace meshwright
