#pragma once

#include <vector>

#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the layers of each pipeline stage as the framework splits them when a plan does not say.
// They sum to the model's layer_count; stages may be empty (LayerSplit::kByCost).
std::vector<int> SplitLayers(const ModelSpec& model, const FrameworkProfile& profile,
                             int stage_count);

// Returns the layers of each pipeline stage of a plan: those that it states, or else the
// framework's.
std::vector<int> LayersPerStage(const ParallelPlan& plan, const ModelSpec& model,
                                const FrameworkProfile& profile);

// Returns the plan with the framework's split stated if it states none.
ParallelPlan WithStatedSplit(ParallelPlan plan, const ModelSpec& model,
                             const FrameworkProfile& profile);

// The framework's splits for any number of stages, each made once and kept. Not for use from
// several threads at once.
class DefaultSplits {
 public:
  // Both outlive it.
  DefaultSplits(const ModelSpec& model, const FrameworkProfile& profile);

  const std::vector<int>& For(int stage_count);

 private:
  const ModelSpec& model_;
  const FrameworkProfile& profile_;
  std::vector<std::vector<int>> splits_;  // indexed by number of stages; empty if not computed yet
};

}  // namespace meshwright
