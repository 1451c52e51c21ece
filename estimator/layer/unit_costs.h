#pragma once

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"

namespace meshwright {

// The costs of one layer of each kind on one device. They depend neither on the number of layers of
// a stage, nor on the depth of the pipeline, nor on how states are sharded: all plans with the same
// pool and LayerSharding share them.

// Memory and parameters, which cost little to find.
struct UnitCosts {
  ModuleSet selective = 0;  // modules that selective recomputation runs again
  LayerStore dense = {};
  LayerStore moe = {};
  LayerStore mtp = {};
  // Parameters on one device.
  double dense_layer_parameters = 0;  // parameters of a dense layer
  double moe_layer_parameters = 0;    // parameters of a layer with experts, without these
  double expert_parameters = 0;       // routed experts of one layer
  double vocabulary_parameters = 0;   // one embedding or output matrix
  double mtp_parameters = 0;          // projection of an MTP layer
  // Elements of distinct weight matrices, for frameworks that cache a dummy gradient of each.
  double distinct_dense_elements = 0;
  double distinct_moe_elements = 0;
  // Working sets on top of stored activations (docs/cost_model/memory.md "Transients").
  Bytes layer_transient = {};
  Bytes moe_transient = {};
  Bytes head_transient = {};
  Bytes old_logits = {};  // logits of the micro-batch before, if the framework keeps them
  Bytes boundary = {};    // activation that one device of a stage sends to the next stage
};

// The times of each kind of layer.
template <typename Pass>
struct UnitPasses {
  LayerPasses<Pass> dense = {};
  LayerPasses<Pass> moe = {};
  LayerPasses<Pass> mtp = {};  // a multi-token-prediction layer with its projection and head
  LayerPasses<Pass> embedding = {};
  LayerPasses<Pass> head = {};
};
using UnitTimes = UnitPasses<PassTime>;
using UnitSums = UnitPasses<PassSums>;

// Keeps what everything but a breakdown needs: side by side in memory, a tenth of the size.
UnitSums SumsOf(const UnitTimes& times);

// Fills in only the parameters and the boundary.
UnitCosts MeasureParameters(const LayerContext& context);
UnitCosts MeasureUnits(const LayerContext& context, ModuleSet selective);

UnitTimes PriceUnits(const LayerContext& context, const LayerSite& site, ModuleSet selective);

// Returns a lower bound of PriceUnits for any way to divide the routed experts: their products run
// at the best rate of the chip and their messages cost nothing. Forward and backward passes only.
UnitTimes PriceUnitsWithBestExperts(const LayerContext& context, const LayerSite& site);

}  // namespace meshwright
