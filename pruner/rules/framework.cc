#include "estimator/legality/legality.h"
#include "estimator/problem/legality_rule.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"

namespace meshwright {

std::optional<Rejection> CheckFramework(const PruneContext& context, const ParallelPlan& plan,
                                        int depth) {
  const LegalityRule* const broken =
      BrokenRule(context.problem, plan, static_cast<Dimension>(depth - 1));
  if (broken == nullptr) return std::nullopt;
  return Rejection{.rule = kFrameworkRule, .reason = broken->sentence};
}

}  // namespace meshwright
