#include "server/tuner/search/legal_plans.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

// Below this depth, counts are products and cost almost nothing.
constexpr int kBranchDepth = static_cast<int>(Dimension::kPipelineParallel) + 1;
constexpr int kMaxDraws = 10'000;  // for one plan; the rules pass about a tenth of the draws
constexpr int kMaxSteps = 2'000;   // to one nearest path; most take one step per dimension

std::size_t IndexOf(Dimension dimension) { return static_cast<std::size_t>(dimension); }

}  // namespace

LegalPlans::LegalPlans(const SearchSpace& space, const EstimatorProblem& problem,
                       std::uint64_t seed)
    : space_(space), problem_(problem), random_(seed) {
  PlanPath path;
  for (PlanWalk walk(space); walk.Next();) {
    path.values[static_cast<std::size_t>(walk.depth() - 1)] = walk.value();
    if (IsCut(walk.plan(), walk.depth())) {
      walk.Skip();
    } else if (walk.depth() == kBranchDepth) {
      walk.Skip();
      path.plan = walk.plan();
      branches_.push_back({.prefix = path, .plans_before = plan_count_});
      plan_count_ += space.CountBelow(path.plan, kBranchDepth);
    }
  }
}

bool LegalPlans::IsCut(const ParallelPlan& plan, int depth) const {
  return pruning_.IsCutBySizes({.problem = problem_, .space = space_}, plan, depth);
}

std::optional<PlanPath> LegalPlans::Draw() {
  for (int i = 0; i < kMaxDraws && plan_count_ > 0 && !rest_.has_value(); ++i) {
    const auto rank = static_cast<std::int64_t>(Below(static_cast<std::uint64_t>(plan_count_)));
    std::optional<PlanPath> path = PlanAt(rank);
    if (path.has_value() && !taken_.contains(path->plan)) return path;
  }
  return NextOfRest();
}

// Returns the plan that is preceded by `rank` plans in the branches, or nullopt if a rule rejects
// it.
std::optional<PlanPath> LegalPlans::PlanAt(std::int64_t rank) const {
  const auto next = std::ranges::upper_bound(branches_, rank, {}, &Branch::plans_before);
  const Branch& branch = *std::prev(next);
  PlanPath path = branch.prefix;
  rank -= branch.plans_before;
  for (int depth = kBranchDepth; depth < kDimensionCount; ++depth) {
    const auto dimension = static_cast<Dimension>(depth);
    for (const int value : space_.Values(dimension, path.plan)) {
      space_.Set(dimension, value, path.plan);
      path.values[IndexOf(dimension)] = value;
      const std::int64_t below = space_.CountBelow(path.plan, depth + 1);
      if (rank < below) break;
      rank -= below;
    }
    if (IsCut(path.plan, depth + 1)) return std::nullopt;
  }
  return path;
}

std::optional<PlanPath> LegalPlans::NextOfRest() {
  if (!rest_.has_value()) rest_.emplace(space_);
  while (!has_ended_ && rest_->Next()) {
    rest_path_.values[static_cast<std::size_t>(rest_->depth() - 1)] = rest_->value();
    if (IsCut(rest_->plan(), rest_->depth())) {
      rest_->Skip();
    } else if (rest_->is_plan() && !taken_.contains(rest_->plan())) {
      rest_path_.plan = rest_->plan();
      return rest_path_;
    }
  }
  has_ended_ = true;
  return std::nullopt;
}

// Returns the plan that has the first `depth` dimensions of the path and the root's others.
ParallelPlan LegalPlans::PrefixOf(const PlanPath& path, int depth) const {
  ParallelPlan plan = space_.Root();
  for (int i = 0; i < depth; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    space_.Set(dimension, path.values[IndexOf(dimension)], plan);
  }
  return plan;
}

std::vector<int> LegalPlans::Values(const PlanPath& path, Dimension dimension) const {
  return space_.Values(dimension, PrefixOf(path, static_cast<int>(dimension)));
}

struct LegalPlans::Descent {
  const PlanValues& wanted;
  PlanPath path;
  int steps = 0;
};

// Sets the dimensions from `depth` on, nearest values first. Returns true if it reached a legal
// plan.
bool LegalPlans::Descend(Descent& descent, int depth) const {
  if (depth == kDimensionCount) return true;
  const auto dimension = static_cast<Dimension>(depth);
  const int wanted = descent.wanted[IndexOf(dimension)];
  std::vector<int> values = space_.Values(dimension, descent.path.plan);
  std::ranges::stable_sort(values, {}, [&](int value) { return std::abs(value - wanted); });
  for (const int value : values) {
    if (++descent.steps > kMaxSteps) return false;
    space_.Set(dimension, value, descent.path.plan);
    descent.path.values[IndexOf(dimension)] = value;
    if (!IsCut(descent.path.plan, depth + 1) && Descend(descent, depth + 1)) return true;
  }
  return false;
}

std::optional<PlanPath> LegalPlans::Moved(const PlanPath& path, Dimension dimension,
                                          int value) const {
  const int depth = static_cast<int>(dimension) + 1;
  Descent descent = {.wanted = path.values, .path = path};
  descent.path.values[IndexOf(dimension)] = value;
  descent.path.plan = PrefixOf(descent.path, depth);
  if (IsCut(descent.path.plan, depth) || !Descend(descent, depth)) return std::nullopt;
  return std::move(descent.path);
}

std::optional<PlanPath> LegalPlans::Nearest(const PlanValues& values) const {
  Descent descent = {.wanted = values, .path = {.plan = space_.Root()}};
  if (!Descend(descent, 0)) return std::nullopt;
  return std::move(descent.path);
}

void LegalPlans::Note(const Observation& observation) {
  const bool fits = observation.step_time.has_value();
  costs_[observation.plan] = {
      .is_oversized = !fits,
      .amount = fits ? observation.step_time->count()
                     : static_cast<double>(observation.reserved_memory.count)};
}

std::optional<PlanCost> LegalPlans::CostOf(const ParallelPlan& plan) const {
  const auto found = costs_.find(plan);
  return found == costs_.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t LegalPlans::Below(std::uint64_t end) {
  // Rejects numbers above the largest multiple of `end`, which would make small results likelier.
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t limit = most - most % end;
  std::uint64_t drawn = random_();
  while (drawn >= limit) drawn = random_();
  return drawn % end;
}

double LegalPlans::Unit() {
  constexpr double kStep = 0x1p-53;
  return static_cast<double>(random_() >> 11) * kStep;
}

}  // namespace meshwright
