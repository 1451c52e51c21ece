#pragma once

#include <span>

#include "pruner/rules/prune_rule.h"

namespace meshwright {

// The ordered table: divisibility, topology, memory, history, dominance, bound. Memory, dominance
// among the recomputation choices of one plan, and the bound need the cost model: NarrowRecompute;
// history also needs measured runs: history_rule.h. The `check` of memory, history and bound is
// null.
std::span<const PruneRule> PruneRules();

}  // namespace meshwright
