#pragma once

#include "search_space/spec/model.h"

namespace meshwright {

// The parameters of one layer by what divides them between devices (docs/cost_model/memory.md
// "Static memory"). Doubles: whole numbers up to 2^53 are exact, and a model of absurd size does
// not overflow before Validate rejects it.
struct LayerParameters {
  double tensor_split = 0;  // matrices divided by tensor parallelism, before the division
  double replicated = 0;    // norms, routers, MLA's down projections
  double expert = 0;        // all routed experts of the layer, before any division
};

// Counts the parameters of a layer of this kind, whose sizes are filled in (LayerList::kinds).
LayerParameters ParametersOf(const ModelSpec& model, const LayerKind& kind);

// Returns the parameters of one norm of `width`.
double NormParameters(const ModelSpec& model, double width);

}  // namespace meshwright
