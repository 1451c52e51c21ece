#include "pruner/pruner.h"

#include <algorithm>
#include <utility>

#include "pruner/rules/rules.h"

namespace meshwright {
namespace {

// Calls a hook and adds the time that it takes.
template <typename Hook>
std::optional<Rejection> Call(const Hook& hook, const std::function<Seconds()>& now,
                              Seconds& time) {
  if (!now) return hook();
  const Seconds start = now();
  const std::optional<Rejection> rejection = hook();
  time += now() - start;
  return rejection;
}

}  // namespace

std::span<const PruneRule> PruneRules() {
  static constexpr PruneRule kRules[] = {
      {.name = kFrameworkRule,
       .what = "refused by the framework that was named",
       .on_prefix = &CheckFramework},
      {.name = kDivisibilityRule,
       .what = "sizes that do not divide",
       .on_prefix = &CheckDivisibility},
      {.name = kTopologyRule,
       .what = "tensor-parallel groups that neither divide a node evenly nor span whole nodes",
       .is_proven = false,
       .on_prefix = &CheckTopology},
      {.name = kMemoryRule,
       .what = "does not fit by the memory model",
       .on_prefix = &CheckMemory,
       .on_plan = &CheckPlanMemory},
      {.name = kHistoryRule,
       .what = "failed when it ran, or needs at least as much memory as a plan that ran out of it",
       .on_prefix = &CheckHistory,
       .on_plan = &CheckPlanHistory},
      {.name = kDominanceRule,
       .what = "another plan of the same shape fits and recomputes less, or costs the same",
       .on_prefix = &CheckEqualPlans},
      {.name = kBoundRule,
       .what = "slower than the plans already found, whatever is recomputed",
       .on_prefix = &CheckBound},
  };
  return kRules;
}

Pruning::Pruning(const std::vector<std::string>& disabled_rules, std::function<Seconds()> now)
    : now_(std::move(now)) {
  for (const PruneRule& rule : PruneRules()) {
    tallies_.push_back({.rule = &rule, .is_on = IsRuleOn(rule.name, disabled_rules)});
  }
}

std::optional<std::int64_t> Pruning::CutPrefix(const PruneContext& context,
                                               const ParallelPlan& prefix, int depth) {
  for (RuleTally& tally : tallies_) {
    if (!tally.is_on || tally.rule->on_prefix == nullptr) continue;
    const auto hook = [&] { return tally.rule->on_prefix(context, prefix, depth); };
    if (!Call(hook, now_, tally.time).has_value()) continue;
    const std::int64_t below = context.space.CountBelow(prefix, depth);
    tally.count += below;
    return below;
  }
  return std::nullopt;
}

std::optional<Rejection> Pruning::CutPlan(const PruneContext& context, const PricedPlan& plan) {
  for (RuleTally& tally : tallies_) {
    if (!tally.is_on || tally.rule->on_plan == nullptr) continue;
    const auto hook = [&] { return tally.rule->on_plan(context, plan); };
    const std::optional<Rejection> rejection = Call(hook, now_, tally.time);
    if (!rejection.has_value()) continue;
    ++tally.count;
    return rejection;
  }
  return std::nullopt;
}

bool Pruning::IsCutBySizes(const PruneContext& context, const ParallelPlan& prefix,
                           int depth) const {
  const PruneContext sizes = {.problem = context.problem, .space = context.space};
  return std::ranges::any_of(tallies_, [&](const RuleTally& tally) {
    return tally.is_on && tally.rule->on_prefix != nullptr &&
           tally.rule->on_prefix(sizes, prefix, depth).has_value();
  });
}

void Pruning::Merge(const Pruning& other) {
  for (std::size_t i = 0; i < tallies_.size(); ++i) {
    tallies_[i].count += other.tallies_[i].count;
    tallies_[i].time += other.tallies_[i].time;
  }
}

bool Pruning::IsOn(std::string_view rule) const {
  return std::ranges::find(tallies_, rule, [](const RuleTally& t) { return t.rule->name; })->is_on;
}

std::vector<std::pair<std::string, std::int64_t>> Pruning::CountsByRule() const {
  std::vector<std::pair<std::string, std::int64_t>> counts;
  for (const RuleTally& tally : tallies_) counts.emplace_back(tally.rule->name, tally.count);
  return counts;
}

RuleTally& Pruning::TallyOf(std::string_view rule) {
  return *std::ranges::find(tallies_, rule, [](const RuleTally& t) { return t.rule->name; });
}

}  // namespace meshwright
