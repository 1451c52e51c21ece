#pragma once

#include <compare>

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/program.h"

namespace meshwright {

// The operations of the mean stage in parts of its work. They are whole numbers so that orders can
// be kept: a list schedule follows these proportions, the same on all stages.
struct Proportions {
  int forward = 1;
  int backward = 1;  // without the weights' gradient
  int weight_gradient = 1;
  auto operator<=>(const Proportions&) const = default;
};

// Returns the default if the program's schedule has a fixed order.
Proportions ProportionsOf(const PipelineProgram& program);

// Returns the orders of a program. They depend on its schedule, its number of stages, virtual
// stages and micro-batches, and on the proportions, which are its own.
//
// GPipe, 1F1B and interleaved 1F1B have the order of Megatron-Core's schedules.py (Narayanan et al.
// 2021, arXiv 2104.04473), interleaved in whole groups of p micro-batches. The others have that of
// a list schedule, which prefers backward to forward and fills gaps with weight gradients, within
// the micro-batches that the schedule holds: ZB-H1 and ZB-V (Qi et al. 2023, arXiv 2401.10241;
// 2024, arXiv 2405.15362), DualPipe and DualPipeV (DeepSeek-V3, arXiv 2412.19437), Chimera (Li and
// Hoefler 2021, arXiv 2107.06925).
PipelineOrders OrdersOf(const PipelineProgram& program, const Proportions& proportions);

}  // namespace meshwright
