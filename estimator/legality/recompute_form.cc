#include "estimator/legality/recompute_form.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

bool AllZero(const std::vector<int>& counts) {
  return std::ranges::all_of(counts, [](int count) { return count == 0; });
}

}  // namespace

RecomputeForm RecomputeFormOf(const ModelSpec& model, const FrameworkProfile& profile,
                              const ParallelPlan& plan) {
  const RecomputePlan& recompute = plan.recompute;
  if (recompute.granularity == RecomputeGranularity::kNone) return RecomputeForm::kNothing;
  if (!AllZero(recompute.selective_layer_counts)) return RecomputeForm::kSomeLayers;
  const std::vector<int>& counts = recompute.layer_counts;
  if (!counts.empty() && AllZero(counts)) return RecomputeForm::kNothing;
  // A count above the layers of its stage means all of them.
  const bool is_every =
      counts.empty() ||
      std::ranges::equal(counts, LayersPerStage(plan, model, profile), std::greater_equal<>());
  if (!is_every) return RecomputeForm::kSomeLayers;
  return recompute.granularity == RecomputeGranularity::kSelective ? RecomputeForm::kSelective
                                                                   : RecomputeForm::kEveryLayer;
}

std::optional<int> RecomputeInterval(const ModelSpec& model, const FrameworkProfile& profile,
                                     const ParallelPlan& plan) {
  const std::vector<int> layers = LayersPerStage(plan, model, profile);
  const std::vector<int>& counts = plan.recompute.layer_counts;
  const bool is_mixed = !plan.recompute.selective_layer_counts.empty() ||
                        plan.recompute.granularity != RecomputeGranularity::kFull;
  if (is_mixed || counts.size() != layers.size()) return std::nullopt;
  for (int interval = 2; interval <= layers.front(); ++interval) {
    const auto is_every = [&](int layer_count, int count) {
      return layer_count / interval == count;
    };
    if (std::equal(layers.begin(), layers.end(), counts.begin(), is_every)) return interval;
  }
  return std::nullopt;
}

}  // namespace meshwright
