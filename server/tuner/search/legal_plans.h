#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "pruner/pruner.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {

using PlanValues = std::array<int, kDimensionCount>;  // one per dimension

// A plan and the path to it.
struct PlanPath {
  PlanValues values = {};
  ParallelPlan plan = {};
};

// The cost of a plan; less is better. Plans that fit come first, ordered by time; the others
// follow, ordered by memory.
struct PlanCost {
  bool is_oversized = false;
  double amount = 0;  // seconds or bytes
  auto operator<=>(const PlanCost&) const = default;
};

// The parts that all strategies share: it draws legal plans of a space, moves between them, and
// records which were asked for and with what result. Its random numbers are the same on every
// machine (those of the standard's distributions are not).
class LegalPlans {
 public:
  // The space outlives it.
  LegalPlans(const SearchSpace& space, const EstimatorProblem& problem, std::uint64_t seed);

  // Returns a random plan that was not asked for yet; all are equally likely. If nearly all were
  // asked for, or the rules reject too many draws in a row, it returns from then on the first such
  // plan in the order of the space. Returns nullopt if all were asked for.
  std::optional<PlanPath> Draw();

  // Values returns the values left for a dimension of a path. Moved returns the path with another
  // of them; its later dimensions stay as near to their old values as the space and the rules
  // allow. It returns nullopt if it finds no legal plan.
  [[nodiscard]] std::vector<int> Values(const PlanPath& path, Dimension dimension) const;
  [[nodiscard]] std::optional<PlanPath> Moved(const PlanPath& path, Dimension dimension,
                                              int value) const;
  // Returns the legal path nearest to `values`; earlier dimensions count first.
  [[nodiscard]] std::optional<PlanPath> Nearest(const PlanValues& values) const;

  // Records that a plan is asked for. Returns true if it is the first time.
  bool Take(const ParallelPlan& plan) { return taken_.insert(plan).second; }
  void Note(const Observation& observation);
  // Returns the result that was recorded for a plan.
  [[nodiscard]] std::optional<PlanCost> CostOf(const ParallelPlan& plan) const;

  std::uint64_t Below(std::uint64_t end);  // 0 .. end - 1, all equally likely
  double Unit();                           // in [0, 1)

 private:
  // A part of the space that no rule prunes as a whole.
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
  const Pruning pruning_;  // with every rule
  std::mt19937_64 random_;
  std::vector<Branch> branches_;
  std::int64_t plan_count_ = 0;  // in the branches
  std::set<ParallelPlan> taken_;
  std::map<ParallelPlan, PlanCost> costs_;
  // A walk over the whole space, used once draws find nothing new.
  std::optional<PlanWalk> rest_;
  PlanPath rest_path_;
  bool has_ended_ = false;
};

}  // namespace meshwright
