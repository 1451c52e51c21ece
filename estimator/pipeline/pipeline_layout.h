#pragma once

#include <cstdlib>

#include "search_space/spec/choices.h"

namespace meshwright {

// The places where a schedule puts the chunks of a model. A direction is one way through the
// devices with its own copy of the weights; DualPipe and Chimera have two.
struct PipelineLayout {
  Schedule schedule = Schedule::k1f1b;
  int devices = 1;
  int chunks_per_device = 1;  // in one direction

  [[nodiscard]] int chunks() const { return devices * chunks_per_device; }
  [[nodiscard]] int directions() const {
    return schedule == Schedule::kDualpipe || schedule == Schedule::kChimera ? 2 : 1;
  }
  // Returns the stage that the chunk is a part of.
  [[nodiscard]] int StageOf(int chunk) const {
    if (IsFolded()) return chunk < devices ? chunk : chunks() - 1 - chunk;
    return chunk % devices;
  }
  [[nodiscard]] int DeviceOf(int direction, int chunk) const {
    return direction == 0 ? StageOf(chunk) : devices - 1 - StageOf(chunk);
  }
  // Returns true for ZB-V and DualPipeV, where the second half of the model comes back to the first
  // device.
  [[nodiscard]] bool IsFolded() const {
    return schedule == Schedule::kZbV || schedule == Schedule::kDualpipeV;
  }
  // Returns the largest number of micro-batches that a chunk of a direction holds, from their
  // forward to their last gradient.
  [[nodiscard]] int Capacity(int chunk) const {
    switch (schedule) {
      case Schedule::kZbH1:  // as much as the first stage of 1F1B
      case Schedule::kZbV:
        return devices;
      case Schedule::kDualpipeV:
        return devices == 1 ? 1 : devices + 1;
      case Schedule::kDualpipe:  // devices + 1 on each device, both directions together
      case Schedule::kChimera:
        return devices - chunk;
      case Schedule::kGpipe:
      case Schedule::k1f1b:
      case Schedule::kInterleaved1f1b:
        break;  // their order decides it
    }
    std::abort();
  }
  [[nodiscard]] bool SplitsBackward() const {
    switch (schedule) {
      case Schedule::kZbH1:
      case Schedule::kZbV:
      case Schedule::kDualpipe:
      case Schedule::kDualpipeV:
        return true;
      case Schedule::kGpipe:
      case Schedule::k1f1b:
      case Schedule::kInterleaved1f1b:
      case Schedule::kChimera:
        return false;
    }
    std::abort();
  }
};

// Returns true if the order of operations is independent of their times. Then a step never gets
// shorter when one of its operations takes longer.
inline bool HasFixedOrder(Schedule schedule) {
  return schedule == Schedule::kGpipe || schedule == Schedule::k1f1b ||
         schedule == Schedule::kInterleaved1f1b;
}

// `virtual_stages` are the plan's; folded schedules always have two.
inline PipelineLayout LayoutOf(Schedule schedule, int stage_count, int virtual_stages) {
  PipelineLayout layout = {
      .schedule = schedule, .devices = stage_count, .chunks_per_device = virtual_stages};
  if (layout.IsFolded()) layout.chunks_per_device = 2;
  return layout;
}

}  // namespace meshwright
