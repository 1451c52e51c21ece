#include "pruner/pruner.h"

#include "pruner/rules/rules.h"

namespace meshwright {

std::span<const PruneRule> PruneRules() {
  static constexpr PruneRule kRules[] = {
      {"divisibility", "sizes that do not divide, or that the framework cannot combine",
       &CheckDivisibility},
      {"topology", "tensor-parallel groups that fill neither a part of a node nor whole nodes",
       &CheckTopology},
      {kMemoryRule, "does not fit by the memory model", nullptr},
      {kHistoryRule,
       "failed when it was run, or is modelled at no less than what ran out of memory", nullptr},
      {kDominanceRule, "another plan of the same shape fits and recomputes less, or costs the same",
       &CheckEqualPlans},
      {kBoundRule, "slower than the plans already found, whatever is recomputed", nullptr},
  };
  return kRules;
}

}  // namespace meshwright
