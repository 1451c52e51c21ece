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

// Device time of one pass over a program by cause (only the causes that a layer can have are used)
// and the time that the host needs to launch it.
struct PassTime {
  TimeBreakdown by_cause = {};
  Seconds device = Seconds(0);  // sum of by_cause
  Seconds host = Seconds(0);
  Seconds experts = Seconds(0);          // of the matmul line, products of routed experts
  Seconds weight_gradient = Seconds(0);  // of the backward pass, what nothing of it waits for
};

// The part of a PassTime that decides the time of a stage.
struct PassSums {
  Seconds device = Seconds(0);
  Seconds host = Seconds(0);
  Seconds weight_gradient = Seconds(0);
};

PassTime operator+(const PassTime& a, const PassTime& b);
// Nothing for n = 0.
void AddScaled(PassTime& sum, const PassTime& part, double n);
inline void AddScaled(PassSums& sum, const PassSums& part, double n) {
  if (n <= 0) return;
  sum.device += n * part.device;
  sum.host += n * part.host;
  sum.weight_gradient += n * part.weight_gradient;
}

// One layer (or embedding, or head) timed for one device and one micro-batch.
template <typename Pass>
struct LayerPasses {
  Pass forward = {};
  Pass backward = {};
  Pass selective = {};  // work done again under selective recomputation
  Pass full = {};       // under full recomputation: the forward pass
};
using LayerTime = LayerPasses<PassTime>;

// What it keeps for its backward pass.
struct LayerStore {
  Bytes all = {};        // without recomputation
  Bytes selective = {};  // with selective recomputation
  Bytes full = {};       // with full recomputation: the layer's input
};

LayerStore StoreOf(const LayerProgram& program, const LayerContext& context, ModuleSet selective);

// Where a layer runs: the pool, its network and the groups of its collectives.
struct LayerSite {
  const NodePool& pool;
  const Topology& topology;
  MatmulTimes& matmuls;
  GroupShape tensor = {};
  GroupShape context_exchange = {};
  GroupShape context = {};
  GroupShape expert = {};
  GroupShape expert_tensor = {};
};

LayerSite PlaceLayer(const LayerSharding& sharding, const NodePool& pool, const Topology& topology,
                     MatmulTimes& matmuls);

// Prices a program. `selective` are the modules that selective recomputation runs again.
// `cause_override` books all device time of a vocabulary program under one cause.
LayerTime PriceProgram(const LayerProgram& program, const LayerContext& context,
                       const LayerSite& site, ModuleSet selective,
                       std::optional<TimeCause> cause_override);

// Device rates of the workload on the chips of a pool.
DeviceRates RatesOf(const NodePool& pool, const Workload& workload);

// Wall time of a pass whose launches and kernels run side by side: the longer of the two, smoothly
// (docs/cost_model.md "Host time").
inline Seconds DeviceWithHost(Seconds device, Seconds host) {
  const double d2 = device.count() * device.count();
  const double h2 = host.count() * host.count();
  return Seconds(std::sqrt(std::sqrt(d2 * d2 + h2 * h2)));
}

}  // namespace meshwright
