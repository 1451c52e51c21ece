#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the ordered table of rules. Most recomputation choices of a plan need no check;
// NarrowRecompute skips them and counts them for the rule that would reject them.
std::span<const PruneRule> PruneRules();

// One rule of a search, with its count and time.
struct RuleTally {
  const PruneRule* rule = nullptr;
  bool is_on = true;
  std::int64_t count = 0;  // plans that it has removed
  Seconds time = Seconds(0);
};

// The rules of one search in their order. This class names, counts and times each of them; in the
// product, no other code runs a hook. NarrowRecompute applies four of the rules to the
// recomputation choices of a plan without hooks: its caller passes the counts to Count, and no rule
// is charged with its time.
class Pruning {
 public:
  // Times each hook with `now`; without `now`, no hook is timed.
  explicit Pruning(const std::vector<std::string>& disabled_rules = {},
                   std::function<Seconds()> now = {});

  // Applies the enabled rules to a prefix. The first rule that rejects it counts the plans below
  // the prefix, whose number is returned; nullopt if no rule rejects it.
  std::optional<std::int64_t> CutPrefix(const PruneContext& context, const ParallelPlan& prefix,
                                        int depth);
  // Does the same for a priced plan.
  std::optional<Rejection> CutPlan(const PruneContext& context, const PricedPlan& plan);

  // Returns true if an enabled rule rejects the prefix by its sizes, without a cost model. The
  // plans below are not counted, and the hooks are not timed.
  [[nodiscard]] bool IsCutBySizes(const PruneContext& context, const ParallelPlan& prefix,
                                  int depth) const;

  // Counts plans that a search omits because it knows that a rule would reject them.
  void Count(std::string_view rule, std::int64_t plans) { TallyOf(rule).count += plans; }
  void Merge(const Pruning& other);

  [[nodiscard]] bool IsOn(std::string_view rule) const;
  // Returns how many plans each rule has removed, in the order of the rules.
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> CountsByRule() const;
  [[nodiscard]] const std::vector<RuleTally>& tallies() const { return tallies_; }

 private:
  RuleTally& TallyOf(std::string_view rule);

  std::vector<RuleTally> tallies_;
  std::function<Seconds()> now_;
};

}  // namespace meshwright
