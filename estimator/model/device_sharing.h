#pragma once

#include <span>
#include <vector>

#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// How the devices of a node share physical ones (NodePool::physical_devices_per_node).
struct DeviceSharing {
  double per_physical = 1;  // devices
  int stages_per_node = 1;  // different ones, so that one computes while another waits
};

// Of `stage_count` stages, each on such devices.
DeviceSharing SharingOf(const StageDevices& devices, int stage_count, RankOrder order);

// Time of a pipeline that would take `alone` on devices of its own; `runs` and `alone` are of a
// device that has its physical one for itself. A free physical device takes whatever stage of its
// node is ready, so that a node is done no sooner than its work divided among its physical devices,
// nor than the longest path, on which a stage has no more than the node has (Brent 1974,
// doi:10.1145/321812.321815: the longer of the two, up to their sum). Of equal stages that are
// always ready it is exact.
Seconds SharedPipelineTime(Seconds alone, std::span<const OccupiedRun> runs, int micro_batches,
                           const DeviceSharing& sharing);

// The same of a schedule of two directions: a device has a stage of each, and each has half of the
// micro-batches, so that it works for the mean of the two.
std::vector<OccupiedRun> BothDirections(std::span<const OccupiedRun> runs);

}  // namespace meshwright
