#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {

using PlanValues = std::array<int, kDimensionCount>;  // of every dimension

// A plan and the way to it.
struct PlanPath {
  PlanValues values = {};
  ParallelPlan plan = {};
};

// How good a plan is; less is better. Those that fit by their time, then the others by their
// memory.
struct PlanCost {
  bool is_oversized = false;
  double amount = 0;  // seconds, or bytes
  auto operator<=>(const PlanCost&) const = default;
};

// What the strategies share: plans of a space that the rules let pass, drawn or moved to, and which
// of them were asked for and what became of them. Its random numbers are the same on every machine
// (the standard's distributions are not).
class LegalPlans {
 public:
  // The space outlives it.
  LegalPlans(const SearchSpace& space, const EstimatorProblem& problem, std::uint64_t seed);

  // One of the plans that were not asked for, all equally likely. When nearly all were, or the
  // rules cut what is drawn too many times in a row, from then on the first of them in the order of
  // the space; nothing when all were.
  std::optional<PlanPath> Draw();

  // The values left for a dimension of a path, and the path with another of them; the later
  // dimensions are as near to what they were as the space and the rules allow. Nothing when nothing
  // legal was found.
  [[nodiscard]] std::vector<int> Values(const PlanPath& path, Dimension dimension) const;
  [[nodiscard]] std::optional<PlanPath> Moved(const PlanPath& path, Dimension dimension,
                                              int value) const;
  // The legal path nearest to `values`, earlier dimensions first.
  [[nodiscard]] std::optional<PlanPath> Nearest(const PlanValues& values) const;

  // Notes that a plan is asked for. Whether it is the first time.
  bool Take(const ParallelPlan& plan) { return taken_.insert(plan).second; }
  void Note(const Observation& observation);
  // What was told of a plan.
  [[nodiscard]] std::optional<PlanCost> CostOf(const ParallelPlan& plan) const;

  std::uint64_t Below(std::uint64_t end);  // 0 .. end - 1, all equally likely
  double Unit();                           // of [0, 1)

 private:
  // A part of the space that no rule cuts as a whole.
  struct Branch {
    PlanPath prefix = {};
    std::int64_t plans_before = 0;  // in the branches before this one
  };
  struct Descent;

  [[nodiscard]] bool IsCut(const ParallelPlan& plan, int depth) const;
  [[nodiscard]] std::optional<PlanPath> PlanAt(std::int64_t rank) const;
  std::optional<PlanPath> NextOfRest();
  [[nodiscard]] ParallelPlan PrefixOf(const PlanPath& path, int depth) const;
  bool Descend(Descent& descent, int depth) const;

  const SearchSpace& space_;
  EstimatorProblem problem_;
  std::mt19937_64 random_;
  std::vector<Branch> branches_;
  std::int64_t plan_count_ = 0;  // in the branches
  std::set<ParallelPlan> taken_;
  std::map<ParallelPlan, PlanCost> costs_;
  // A walk over the whole space, once draws hit nothing new.
  std::optional<PlanWalk> rest_;
  PlanPath rest_path_;
  bool has_ended_ = false;
};

}  // namespace meshwright
