#pragma once

#include "absl/container/inlined_vector.h"
#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {

// The costs of one layer of each kind (LayerList::kinds) on one device. They depend neither on the
// number of layers of a stage, nor on the depth of the pipeline, nor on how states are sharded: all
// plans with the same pool and LayerSharding share them.

// Memory and parameters of one layer, which cost little to find.
struct KindCosts {
  LayerStore store = {};
  double parameters = 0;         // on one device, without routed experts
  double expert_parameters = 0;  // routed experts on one device
  // Elements of distinct weight matrices, for frameworks that cache a dummy gradient of each.
  double distinct_elements = 0;
  Bytes transient = {};  // working set on top of stored activations (docs/cost_model/memory.md)
};

struct UnitCosts {
  ModuleSet selective = 0;                       // modules that selective recomputation runs again
  absl::InlinedVector<KindCosts, 2> kinds = {};  // in the order of LayerList::kinds
  LayerStore mtp = {};
  // Parameters on one device.
  double vocabulary_parameters = 0;  // one embedding or output matrix
  double mtp_parameters = 0;         // of an MTP layer, without routed experts
  double mtp_expert_parameters = 0;
  Bytes head_transient = {};  // working set of the last stage
  Bytes old_logits = {};      // logits of the micro-batch before, if the framework keeps them
  Bytes boundary = {};        // activation that one device of a stage sends to the next stage
};

// The times of each kind of layer.
template <typename Pass>
struct UnitPasses {
  absl::InlinedVector<LayerPasses<Pass>, 2> kinds = {};
  LayerPasses<Pass> mtp = {};  // a multi-token-prediction layer with its projection and head
  LayerPasses<Pass> embedding = {};
  LayerPasses<Pass> head = {};
};
using UnitTimes = UnitPasses<PassTime>;
using UnitSums = UnitPasses<PassSums>;

// Keeps what everything but a breakdown needs: side by side in memory, a tenth of the size.
UnitSums SumsOf(const UnitTimes& times);

// Fills in only the parameters and the boundary.
UnitCosts MeasureParameters(const LayerContext& context, const LayerList& layers);
UnitCosts MeasureUnits(const LayerContext& context, const LayerList& layers, ModuleSet selective);

UnitTimes PriceUnits(const LayerContext& context, const LayerList& layers, const LayerSite& site,
                     ModuleSet selective);

// Returns a lower bound of PriceUnits for any way to divide the routed experts: their products run
// at the best rate of the chip and their messages cost nothing. Forward and backward passes only.
UnitTimes PriceUnitsWithBestExperts(const LayerContext& context, const LayerList& layers,
                                    const LayerSite& site);

}  // namespace meshwright
