#pragma once

#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/model/stage_runs.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The numbers of layers of a stage that recompute fully and, after them, selectively.
struct RecomputeMix {
  int full = 0;
  int selective = 0;
  bool operator==(const RecomputeMix&) const = default;
};

// The mixes that the stages of a plan can recompute. Memory and working time of a stage do not
// depend on what the others recompute. All numbers of layers are multiples of the plan's chunks.
class RecomputeMixes {
 public:
  // `plan` has a schedule of one direction; only the modules of its recomputation matter. The mixes
  // use what `model` has priced, and add to it; it outlives them.
  RecomputeMixes(AnalyticModel& model, const ParallelPlan& plan);

  // Returns for each stage the least number of fully recomputed layers with which it fits, none of
  // them above `most`; nullopt if some stage does not fit with `most`.
  [[nodiscard]] std::optional<std::vector<int>> LeastFull(int most) const;
  // Returns for each stage the mix with which it fits and takes least time; of equal ones that with
  // fewest full layers. Returns nullopt if some stage fits with none.
  std::optional<std::vector<RecomputeMix>> Fastest();
  // Returns for each stage every mix with which it fits, fastest first; only full layers unless
  // `has_selective`.
  std::vector<std::vector<RecomputeMix>> Fitting(bool has_selective);

 private:
  [[nodiscard]] bool Fits(int index, const RecomputeMix& mix) const;
  [[nodiscard]] Seconds WallOf(int index, const RecomputeMix& mix);
  [[nodiscard]] int LayersOf(int index) const;
  [[nodiscard]] std::vector<RecomputeMix> LeastMixes(int index) const;

  AnalyticModel& model_;
  StageRuns stages_;
};

}  // namespace meshwright
