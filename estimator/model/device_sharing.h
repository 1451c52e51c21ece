#pragma once

#include <span>
#include <vector>

#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The way in which the devices of a node share physical ones (NodePool::physical_devices_per_node).
struct DeviceSharing {
  double per_physical = 1;  // devices per physical one
  int stages_per_node = 1;  // different ones, so that one computes while another waits
};

// Returns the sharing of `stage_count` stages, each on such devices.
DeviceSharing SharingOf(const StageDevices& devices, int stage_count, RankOrder order);

// Returns the time of a pipeline on shared devices. `runs` and `alone` are its stages and its time
// on devices that each have a physical one to themselves. A free physical device takes any stage of
// its node that is ready. So a node needs at least its work divided by its physical devices, and at
// least the longest path, on which a stage gets no more than the node has (Brent 1974,
// doi:10.1145/321812.321815: between the longer of the two and their sum). Exact for equal stages
// that are always ready.
Seconds SharedPipelineTime(Seconds alone, std::span<const OccupiedRun> runs, int micro_batches,
                           const DeviceSharing& sharing);

// Returns the work of the devices of a schedule of two directions. A device has a stage of each
// direction, and each direction has half of the micro-batches, so it is the mean of the two.
std::vector<OccupiedRun> BothDirections(std::span<const OccupiedRun> runs);

}  // namespace meshwright
