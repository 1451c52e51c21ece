#include "estimator/model/recompute_mixes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "estimator/model/model_caches.h"
#include "estimator/model/stage.h"
#include "estimator/model/unit_cost_cache.h"

namespace meshwright {
namespace {

Stage WithMix(Stage stage, const RecomputeMix& mix) {
  stage.recomputed_layers = mix.full;
  stage.selective_layers = mix.selective;
  stage.selective_mtp_layers = 0;
  return stage;
}

// Returns the least multiple of `chunks` that fits and is at most `most`, which fits while 0 does
// not. The first layer that recomputes needs room for its working set, so that none at all may need
// less than a few; from there on more layers never need more.
template <typename Fits>
int LeastThatFits(int chunks, int most, const Fits& fits) {
  int least_misses = 1;
  int least_fits = most / chunks;
  while (least_misses < least_fits) {
    const int middle = (least_misses + least_fits) / 2;
    if (fits(middle * chunks)) {
      least_fits = middle;
    } else {
      least_misses = middle + 1;
    }
  }
  return least_fits * chunks;
}

}  // namespace

RecomputeMixes::RecomputeMixes(AnalyticModel& model, const ParallelPlan& plan)
    : model_(model), stages_(model.StagesOf(plan)) {}

bool RecomputeMixes::Fits(int index, const RecomputeMix& mix) const {
  return model_.memory().Fits(stages_, WithMix(stages_.StageAt(index), mix), index);
}

Seconds RecomputeMixes::WallOf(int index, const RecomputeMix& mix) {
  const Stage stage = WithMix(stages_.StageAt(index), mix);
  const PricedUnit& unit = model_.caches().units.TimesOf(*stage.devices);
  return TimeOf(stage, unit.sums, stages_.stage_count() > 1).wall;
}

int RecomputeMixes::LayersOf(int index) const { return stages_.StageAt(index).layer_count; }

std::optional<std::vector<int>> RecomputeMixes::LeastFull(int most) const {
  std::vector<int> counts;
  for (int index = 0; index < stages_.stage_count(); ++index) {
    const auto fits = [&](int count) {
      return Fits(index, {.full = std::min(count, LayersOf(index))});
    };
    int& count = counts.emplace_back(0);
    if (fits(0)) continue;
    if (!fits(most)) return std::nullopt;
    count = LeastThatFits(stages_.virtual_stages(), most, fits);
  }
  return counts;
}

// Returns for each number of full layers with which the stage fits the least number of selective
// ones. With more full layers than the first that need no selective ones there is nothing to gain.
std::vector<RecomputeMix> RecomputeMixes::LeastMixes(int index) const {
  const int chunks = stages_.virtual_stages();
  const int layers = LayersOf(index);
  std::vector<RecomputeMix> mixes;
  for (int full = 0; full <= layers; full += chunks) {
    const auto fits_with = [&](int selective) {
      return Fits(index, {.full = full, .selective = selective});
    };
    if (fits_with(0)) {
      mixes.push_back({.full = full});
      break;
    }
    const int most = (layers - full) / chunks * chunks;
    if (most == 0 || !fits_with(most)) continue;
    mixes.push_back({.full = full, .selective = LeastThatFits(chunks, most, fits_with)});
  }
  return mixes;
}

std::optional<std::vector<RecomputeMix>> RecomputeMixes::Fastest() {
  std::vector<std::vector<RecomputeMix>> choices;  // choices of each stage
  for (int index = 0; index < stages_.stage_count(); ++index) {
    choices.push_back(LeastMixes(index));
    if (choices.back().empty()) return std::nullopt;
  }
  std::vector<RecomputeMix> fastest;
  for (int index = 0; index < stages_.stage_count(); ++index) {
    const auto wall = [&](const RecomputeMix& mix) { return WallOf(index, mix); };
    fastest.push_back(
        *std::ranges::min_element(choices[static_cast<std::size_t>(index)], {}, wall));
  }
  return fastest;
}

std::vector<std::vector<RecomputeMix>> RecomputeMixes::Fitting(bool has_selective) {
  const int chunks = stages_.virtual_stages();
  std::vector<std::vector<RecomputeMix>> fitting;
  for (int index = 0; index < stages_.stage_count(); ++index) {
    const int layers = LayersOf(index);
    std::vector<std::pair<Seconds, RecomputeMix>> mixes;
    for (int full = 0; full <= layers; full += chunks) {
      const int most = has_selective ? layers - full : 0;
      for (int selective = 0; selective <= most; selective += chunks) {
        const RecomputeMix mix = {.full = full, .selective = selective};
        if (Fits(index, mix)) mixes.emplace_back(WallOf(index, mix), mix);
      }
    }
    std::ranges::stable_sort(mixes, {}, [](const auto& timed) { return timed.first; });
    std::vector<RecomputeMix>& ordered = fitting.emplace_back();
    for (const auto& [wall, mix] : mixes) ordered.push_back(mix);
  }
  return fitting;
}

}  // namespace meshwright
