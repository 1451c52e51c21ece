#include "server/tuner/placement/integer_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace meshwright {
namespace {

int NodesOf(const ProgramOption& option, int pool) {
  const auto found = std::ranges::find(option.uses, pool, &PoolUse::pool);
  return found == option.uses.end() ? 0 : found->node_count;
}

bool IsNoWorse(const ProgramOption& a, const ProgramOption& b) {
  return a.value >= b.value && a.floor_value >= b.floor_value &&
         std::ranges::all_of(
             a.uses, [&](const PoolUse& use) { return use.node_count <= NodesOf(b, use.pool); });
}

// The first of equal options stays.
bool IsNeedless(const std::vector<ProgramOption>& options, std::size_t i) {
  for (std::size_t k = 0; k < options.size(); ++k) {
    if (k == i || !IsNoWorse(options[k], options[i])) continue;
    if (k < i || !IsNoWorse(options[i], options[k])) return true;
  }
  return false;
}

}  // namespace

IntegerProgram WithoutDominated(IntegerProgram program) {
  for (ProgramJob& job : program.jobs) {
    std::vector<ProgramOption> kept;
    for (std::size_t i = 0; i < job.options.size(); ++i) {
      if (!IsNeedless(job.options, i)) kept.push_back(job.options[i]);
    }
    job.options = std::move(kept);
  }
  return program;
}

}  // namespace meshwright
