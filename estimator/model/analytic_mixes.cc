// What of a stage's layers recomputes fully, selectively or not, at least cost.
#include <algorithm>
#include <utility>

#include "estimator/model/analytic_model.h"
#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"

namespace meshwright {

bool AnalyticModel::FitsAt(const ParallelPlan& plan, const Stage& stage, int index) const {
  const StageMemory modelled = MemoryOfStage(plan, stage, index, MicroBatches());
  const NodePool& pool = *stage.devices->pool;
  const Bytes reserved = Reserved(ExpectedUse(modelled), pool);
  return reserved <= pool.memory_capacity && !HasFailed(modelled, pool);
}

bool AnalyticModel::StageFits(const ParallelPlan& plan, int stage) {
  BuildRuns(plan);
  return FitsAt(plan, StageAt(stage), stage);
}

// For each number of full layers with which the stage fits the least of selective ones. With more
// full layers than the first that need no selective ones there is nothing to gain.
std::vector<RecomputeMix> AnalyticModel::LeastMixes(const ParallelPlan& plan, Stage stage,
                                                    int index) const {
  const int chunks = plan.virtual_pipeline;
  const int layers = stage.dense_layers + stage.moe_layers;
  std::vector<RecomputeMix> mixes;
  for (int full = 0; full <= layers; full += chunks) {
    const auto fits_with = [&](int selective) {
      stage.recomputed_layers = full;
      stage.selective_layers = selective;
      return FitsAt(plan, stage, index);
    };
    if (fits_with(0)) {
      mixes.push_back({.full = full});
      break;
    }
    // The first layer that recomputes needs room for its working set; from there on more
    // selective ones never need more.
    int fits = (layers - full) / chunks;
    if (fits == 0 || !fits_with(fits * chunks)) continue;
    int misses = 1;
    while (misses < fits) {
      const int middle = (misses + fits) / 2;
      if (fits_with(middle * chunks)) {
        fits = middle;
      } else {
        misses = middle + 1;
      }
    }
    mixes.push_back({.full = full, .selective = fits * chunks});
  }
  return mixes;
}

Seconds AnalyticModel::WallOf(Stage stage, const RecomputeMix& mix) const {
  stage.recomputed_layers = mix.full;
  stage.selective_layers = mix.selective;
  return TimeOf(stage, StageTotal() > 1).wall;
}

std::optional<std::vector<RecomputeMix>> AnalyticModel::FastestMixes(const ParallelPlan& plan) {
  BuildRuns(plan);
  const int p = StageTotal();
  std::vector<std::vector<RecomputeMix>> choices;  // of each stage
  for (int index = 0; index < p; ++index) {
    choices.push_back(LeastMixes(plan, StageAt(index), index));
    if (choices.back().empty()) return std::nullopt;
  }
  PriceRuns();
  std::vector<RecomputeMix> fastest;
  for (int index = 0; index < p; ++index) {
    const auto wall = [&](const RecomputeMix& mix) { return WallOf(StageAt(index), mix); };
    fastest.push_back(
        *std::ranges::min_element(choices[static_cast<std::size_t>(index)], {}, wall));
  }
  return fastest;
}

std::vector<std::vector<RecomputeMix>> AnalyticModel::FittingMixes(const ParallelPlan& plan,
                                                                   bool has_selective) {
  BuildRuns(plan);
  PriceRuns();
  const int chunks = plan.virtual_pipeline;
  std::vector<std::vector<RecomputeMix>> fitting;
  for (int index = 0; index < StageTotal(); ++index) {
    Stage stage = StageAt(index);
    const int layers = stage.dense_layers + stage.moe_layers;
    std::vector<std::pair<Seconds, RecomputeMix>> mixes;
    for (int full = 0; full <= layers; full += chunks) {
      const int most = has_selective ? layers - full : 0;
      for (int selective = 0; selective <= most; selective += chunks) {
        const RecomputeMix mix = {.full = full, .selective = selective};
        stage.recomputed_layers = full;
        stage.selective_layers = selective;
        if (FitsAt(plan, stage, index)) mixes.emplace_back(WallOf(stage, mix), mix);
      }
    }
    std::ranges::stable_sort(mixes, {}, [](const auto& timed) { return timed.first; });
    std::vector<RecomputeMix>& ordered = fitting.emplace_back();
    for (const auto& [wall, mix] : mixes) ordered.push_back(mix);
  }
  return fitting;
}

}  // namespace meshwright
