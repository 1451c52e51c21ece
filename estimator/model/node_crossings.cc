#include "estimator/model/node_crossings.h"

#include "estimator/layer/layer_cost.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/stage.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

NodeCrossings NodeCrossingsOf(const StageRuns& stages) {
  const StageDevices& devices = stages.devices().front();
  const LayerGroups layer = PlaceLayerGroups(devices.sharding, *devices.pool);
  const DataGroups data = PlaceDataGroups(devices);
  const bool has_pipeline = stages.stage_count() > 1;
  const bool pipeline_leaves =
      has_pipeline && (stages.stages_name_pools() ||
                       !PipelineStaysInNode(BlocksOf(devices), ScaleUpDeviceCount(*devices.pool)));
  NodeCrossings crossings;
  const auto set = [&](TimeCause cause, bool crosses) {
    crossings[static_cast<std::size_t>(cause)] = crosses;
  };
  set(TimeCause::kTensorParallel, layer.tensor.nodes > 1);
  set(TimeCause::kContextParallel, layer.context.nodes > 1 || layer.context_exchange.nodes > 1);
  set(TimeCause::kExpertParallel, layer.expert.nodes > 1 || layer.expert_tensor.nodes > 1);
  set(TimeCause::kPipelineP2p, pipeline_leaves);
  set(TimeCause::kDataParallel,
      data.dense.nodes > 1 || data.dense_replicas.nodes > 1 || data.expert.nodes > 1);
  return crossings;
}

}  // namespace meshwright
