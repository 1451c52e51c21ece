#pragma once

#include <cmath>
#include <optional>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// The device time of one pass over a program by cause (only the causes that a layer can have), and
// the time that the host needs to launch it.
struct PassTime {
  TimeBreakdown by_cause = {};
  Seconds device = Seconds(0);  // sum of `by_cause`
  Seconds host = Seconds(0);
  Seconds experts = Seconds(0);          // products of routed experts, part of kMatmul
  Seconds shared_experts = Seconds(0);   // all kernels of shared experts
  Seconds network = Seconds(0);          // collectives between nodes, hidden ones included
  Seconds weight_gradient = Seconds(0);  // part of the backward pass that can be done later
};

// The part of a PassTime that decides the time of a stage.
struct PassSums {
  Seconds device = Seconds(0);
  Seconds host = Seconds(0);
  Seconds weight_gradient = Seconds(0);
  Seconds network = Seconds(0);
};

PassTime operator+(const PassTime& a, const PassTime& b);
// Adds nothing for n = 0.
void AddScaled(PassTime& sum, const PassTime& part, double n);
inline void AddScaled(PassSums& sum, const PassSums& part, double n) {
  if (n <= 0) return;
  sum.device += n * part.device;
  sum.host += n * part.host;
  sum.weight_gradient += n * part.weight_gradient;
  sum.network += n * part.network;
}

// The times of one layer (or embedding, or head) for one micro-batch on one device.
template <typename Pass>
struct LayerPasses {
  Pass forward = {};
  Pass backward = {};
  Pass selective = {};  // work done again under selective recomputation
  Pass full = {};       // work done again under full recomputation: the forward pass
};
using LayerTime = LayerPasses<PassTime>;

// The bytes that a layer keeps for its backward pass.
struct LayerStore {
  Bytes all = {};        // without recomputation
  Bytes selective = {};  // with selective recomputation
  Bytes full = {};       // with full recomputation: the layer's input
};

LayerStore StoreOf(const LayerProgram& program, const LayerContext& context, ModuleSet selective);

// The groups of a layer's collectives.
struct LayerGroups {
  GroupShape tensor = {};
  GroupShape context_exchange = {};
  GroupShape context = {};
  GroupShape expert = {};
  GroupShape expert_tensor = {};
};

LayerGroups PlaceLayerGroups(const LayerSharding& sharding, const NodePool& pool);

// The place where a layer runs: the pool, its network and the groups of its collectives.
struct LayerSite {
  const NodePool& pool;
  const Topology& topology;
  MatmulTimes& matmuls;
  LayerGroups groups = {};
};

LayerSite PlaceLayer(const LayerSharding& sharding, const NodePool& pool, const Topology& topology,
                     MatmulTimes& matmuls);

// Prices a program. `selective` are the modules that selective recomputation runs again.
// `cause_override` books all device time of a vocabulary program under one cause.
LayerTime PriceProgram(const LayerProgram& program, const LayerContext& context,
                       const LayerSite& site, ModuleSet selective,
                       std::optional<TimeCause> cause_override);

// Returns the rates of the workload on a device of a pool.
DeviceRates RatesOf(const NodePool& pool, const Workload& workload);

// Returns the wall time of a pass whose launches and kernels run side by side: a smooth maximum of
// the two (docs/cost_model/kernels.md "Host time").
inline Seconds DeviceWithHost(Seconds device, Seconds host) {
  const double d2 = device.count() * device.count();
  const double h2 = host.count() * host.count();
  return Seconds(std::sqrt(std::sqrt(d2 * d2 + h2 * h2)));
}

}  // namespace meshwright
