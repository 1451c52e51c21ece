#include "estimator/model/device_sharing.h"

#include <algorithm>

#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

// Returns the work of a micro-batch on the neighbouring stages of the node that has most.
Seconds MostWorkOfNode(std::span<const OccupiedRun> runs, int stages_per_node) {
  Seconds most(0);
  Seconds sum(0);
  int index = 0;
  for (const OccupiedRun& run : runs) {
    for (int i = 0; i < run.count; ++i) {
      if (index++ % stages_per_node == 0) sum = Seconds(0);
      sum += run.time;
      most = std::max(most, sum);
    }
  }
  return most;
}

}  // namespace

std::vector<OccupiedRun> BothDirections(std::span<const OccupiedRun> runs) {
  std::vector<OccupiedRun> devices;
  for (const OccupiedRun& run : runs) {
    devices.insert(devices.end(), static_cast<std::size_t>(run.count), {.time = run.time});
  }
  const std::vector<OccupiedRun> own = devices;
  for (std::size_t i = 0; i < own.size(); ++i) {
    devices[i].time = (own[i].time + own[own.size() - 1 - i].time) / 2;
  }
  return devices;
}

DeviceSharing SharingOf(const StageDevices& devices, int stage_count, RankOrder order) {
  // Number of neighbouring devices that have the same stage.
  int block = devices.sharding.tensor_parallel * devices.sharding.context_parallel;
  if (order == RankOrder::kTpCpEpDpPp) block *= devices.data_parallel;
  return {.per_physical = DevicesPerPhysical(*devices.pool),
          .stages_per_node = std::clamp(devices.pool->devices_per_node / block, 1, stage_count)};
}

Seconds SharedPipelineTime(Seconds alone, std::span<const OccupiedRun> runs, int micro_batches,
                           const DeviceSharing& sharing) {
  const double each = sharing.per_physical / sharing.stages_per_node;  // devices of one stage
  const Seconds work = micro_batches * each * MostWorkOfNode(runs, sharing.stages_per_node);
  return std::max(alone * std::max(1.0, each), work);
}

}  // namespace meshwright
