#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

PlanWalk::PlanWalk(const SearchSpace& space) : PlanWalk(space, space.Root(), 0) {}

PlanWalk::PlanWalk(const SearchSpace& space, const ParallelPlan& prefix, int depth)
    : space_(space), plan_(prefix), root_depth_(depth), depth_(depth) {
  levels_.reserve(kDimensionCount);
}

bool PlanWalk::Next() {
  if (descend_ && depth_ < kDimensionCount) {
    levels_.push_back({.values = space_.Values(static_cast<Dimension>(depth_), plan_)});
  }
  descend_ = true;
  while (!levels_.empty() && levels_.back().next == levels_.back().values.size()) {
    levels_.pop_back();
  }
  if (levels_.empty()) return false;
  Level& level = levels_.back();
  depth_ = root_depth_ + static_cast<int>(levels_.size());
  space_.Set(static_cast<Dimension>(depth_ - 1), level.values[level.next++], plan_);
  return true;
}

}  // namespace meshwright
