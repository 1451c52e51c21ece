#pragma once

#include <memory>
#include <optional>

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {

// Everything about one device of a stage that does not depend on how many layers the stage has, how
// deep the pipeline is, or how states are sharded: priced once per (pool, LayerSharding) and reused
// by all plans that share it.
template <typename Pass>
struct UnitPasses {
  LayerPasses<Pass> dense = {};
  LayerPasses<Pass> moe = {};
  LayerPasses<Pass> mtp = {};  // a multi-token-prediction layer with its projection and head
  LayerPasses<Pass> embedding = {};
  LayerPasses<Pass> head = {};
};
using UnitTimes = UnitPasses<PassTime>;

UnitPasses<PassSums> SumsOf(const UnitTimes& times);

struct UnitCosts {
  ModuleSet selective = 0;  // what selective recomputation runs again
  LayerStore dense = {};
  LayerStore moe = {};
  LayerStore mtp = {};
  // Parameters on one device.
  double dense_layer_parameters = 0;  // of a dense layer
  double moe_layer_parameters = 0;    // of a layer with experts, the experts aside
  double expert_parameters = 0;       // routed experts of one layer
  double vocabulary_parameters = 0;   // one embedding or output matrix
  double mtp_parameters = 0;          // projection of an MTP layer
  // Elements of distinct weight matrices, for frameworks that cache a dummy gradient of each.
  double distinct_dense_elements = 0;
  double distinct_moe_elements = 0;
  // Working sets on top of stored activations (docs/cost_model.md "Transients").
  Bytes layer_transient = {};
  Bytes moe_transient = {};
  Bytes head_transient = {};
  Bytes old_logits = {};  // of the micro-batch before, where the framework keeps them
  Bytes boundary = {};    // activation that a stage sends to the next, one device
  std::unique_ptr<UnitTimes> times = {};  // absent until a plan's time is asked for
  // Of `times`, what all but a breakdown needs: side by side in memory, and a tenth of it.
  UnitPasses<PassSums> sums = {};
};

// The parameters and the boundary alone.
UnitCosts MeasureParameters(const LayerContext& context);
// Memory and parameters, which cost little to find; `times` is left absent.
UnitCosts MeasureUnits(const LayerContext& context, ModuleSet selective);

UnitTimes PriceUnits(const LayerContext& context, const LayerSite& site, ModuleSet selective);

// What PriceUnits is not below however the routed experts are shared out: their products at the
// best rate of the chip, none of their messages. Forward and backward passes only.
UnitTimes PriceUnitsWithBestExperts(const LayerContext& context, const LayerSite& site);

}  // namespace meshwright
