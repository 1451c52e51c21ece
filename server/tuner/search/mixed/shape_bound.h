#pragma once

#include <optional>
#include <span>

#include "search_space/base/units.h"
#include "server/tuner/search/mixed/stage_prices.h"

namespace meshwright {

// Neighbouring stages of a pipeline whose costs depend alike on their layers.
struct AlikeStages {
  StagePrices* prices = nullptr;  // for the tail; null: there is none
  int count = 1;
  double forward = 0;              // largest share of the forward pass in the work beside messages
  Seconds layer = Seconds(0);      // least time of one layer in both passes
  Seconds embedding = Seconds(0);  // least time beside the layers: embedding and output layer
  Seconds message = Seconds(0);    // both passes' messages that a stage waits for
  Seconds sent = Seconds(0);       // those of the forward pass
};

// A pipeline before its layers are shared out.
struct ShapeCosts {
  std::span<const AlikeStages> stages = {};
  Seconds hops = Seconds(0);  // sum of all messages beside computation
  int layers = 1;
  int micro_batches = 1;
};

// Returns a lower bound of the pipeline and its tail, whatever the split of the layers and the
// order of the stages, or nullopt if it is not below `useful`. Memory is left out.
std::optional<Seconds> LeastOfShape(const ShapeCosts& shape, Seconds useful);

}  // namespace meshwright
