#include "server/tuner/search/no_legal_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

// Most rules that are named; the others are counted.
constexpr std::size_t kMostReasons = 5;
// Nodes of the space after which the walk ends. Spaces without a legal plan are cut near their
// roots, so that this is only reached if the plans were left out for what they cost.
constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kStopEvery = 64;  // nodes between two looks at the clock

struct LeftOutPlans {
  std::string text = {};
  std::int64_t plans = 0;
};

// Returns the reason of the first enabled rule that rejects the prefix by its sizes, or nullopt.
std::optional<std::string> ReasonOf(const Problem& problem, const PruneContext& context,
                                    const PlanWalk& walk, const SearchOptions& options) {
  for (const PruneRule& rule : PruneRules()) {
    if (rule.on_prefix == nullptr || !IsRuleOn(rule.name, options.disabled_rules)) continue;
    const auto rejected = rule.on_prefix(context, walk.plan(), walk.depth());
    if (!rejected.has_value()) continue;
    if (rule.name != kFrameworkRule) {
      return fmt::format("{} (rule {})", rejected->reason, rule.name);
    }
    const LegalityRule* const broken =
        BrokenRule(context.problem, walk.plan(), static_cast<Dimension>(walk.depth() - 1));
    const std::string& version = problem.workload.framework_version;
    return fmt::format("{}{}{} refuses {}: {} ({})", problem.profile.name,
                       version.empty() ? "" : " ", version, broken->field, broken->sentence,
                       broken->source);
  }
  return std::nullopt;
}

// Returns the plans that each reason leaves out, with most plans first.
std::vector<LeftOutPlans> ReasonsOf(const Problem& problem, const SearchSpace& space,
                                    const SearchOptions& options) {
  const EstimatorProblem estimated = ToEstimatorProblem(problem);
  const PruneContext context = {.problem = estimated, .space = space};
  std::map<std::string, std::int64_t> counts;
  std::int64_t nodes = 0;
  for (PlanWalk walk(space); nodes < kMostNodes && walk.Next(); ++nodes) {
    if (nodes % kStopEvery == 0 && options.stop && options.stop().has_value()) break;
    auto reason = ReasonOf(problem, context, walk, options);
    if (!reason.has_value()) continue;
    counts[*std::move(reason)] += space.CountBelow(walk.plan(), walk.depth());
    walk.Skip();
  }
  std::vector<LeftOutPlans> reasons;
  for (const auto& [text, plans] : counts) reasons.push_back({.text = text, .plans = plans});
  std::ranges::stable_sort(reasons, std::ranges::greater(), &LeftOutPlans::plans);
  return reasons;
}

}  // namespace

std::vector<std::string> WhyNothingIsLegal(const Problem& problem, const SearchOptions& options) {
  const SearchSpace space = SpaceOf(problem);
  const std::int64_t all = space.Count();
  if (all == 0) {
    return {"the stated dimensions leave no plan of the space: state other values, or fewer"};
  }
  const std::vector<LeftOutPlans> reasons = ReasonsOf(problem, space, options);
  std::vector<std::string> sentences;
  for (const LeftOutPlans& reason : reasons) {
    if (sentences.size() == kMostReasons) {
      sentences.push_back(
          fmt::format("{} more rules leave out fewer plans each", reasons.size() - kMostReasons));
      break;
    }
    sentences.push_back(
        fmt::format("{} of {} plans are left out: {}", reason.plans, all, reason.text));
  }
  sentences.emplace_back(
      "state other sizes or dimensions, another framework or the version that runs such plans, or "
      "switch a rule off");
  return sentences;
}

}  // namespace meshwright
