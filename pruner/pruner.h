#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The ordered table: divisibility, topology, memory, history, dominance, bound. Of the
// recomputation choices of one plan most need no look; NarrowRecompute leaves those out, and counts
// them for the rule that would reject them.
std::span<const PruneRule> PruneRules();

// One rule of a search, and what it has done.
struct RuleTally {
  const PruneRule* rule = nullptr;
  bool is_on = true;
  std::int64_t count = 0;  // plans that it has removed
  Seconds time = Seconds(0);
};

// The rules of one search in their order. Names, counts and times each: nothing else runs a hook.
class Pruning {
 public:
  // Each hook is timed by `now`; without it none is.
  explicit Pruning(const std::vector<std::string>& disabled_rules = {},
                   std::function<Seconds()> now = {});

  // Asks the rules that are on about a prefix. The first that rejects it counts the plans below,
  // whose number is returned; nullopt if none does.
  std::optional<std::int64_t> CutPrefix(const PruneContext& context, const ParallelPlan& prefix,
                                        int depth);
  // Does the same for a priced plan.
  std::optional<Rejection> CutPlan(const PruneContext& context, const PricedPlan& plan);

  // Counts plans that a search has left out by what it knows of a rule.
  void Count(std::string_view rule, std::int64_t plans) { TallyOf(rule).count += plans; }
  void Merge(const Pruning& other);

  [[nodiscard]] bool IsOn(std::string_view rule) const;
  [[nodiscard]] const std::vector<RuleTally>& tallies() const { return tallies_; }

 private:
  RuleTally& TallyOf(std::string_view rule);

  std::vector<RuleTally> tallies_;
  std::function<Seconds()> now_;
};

// Returns whether a rule that is on rejects the prefix by its sizes, without a cost model.
bool IsCutBySizes(const PruneContext& context, const ParallelPlan& prefix, int depth,
                  const std::vector<std::string>& disabled_rules = {});

}  // namespace meshwright
