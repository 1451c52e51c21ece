#include "estimator/legality/legality.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>

#include "estimator/legality/rule_tables.h"

namespace meshwright {
namespace {

// Reads the number at the beginning of a version's part, and drops the part with its dot.
std::optional<int> TakeNumber(std::string_view& version) {
  int number = 0;
  const auto [end, error] =
      std::from_chars(version.data(), version.data() + version.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::size_t dot = version.find('.');
  version = dot == std::string_view::npos ? std::string_view() : version.substr(dot + 1);
  return number;
}

bool Holds(const VersionRange& range, std::string_view version) {
  std::string_view rest = version;
  if (!TakeNumber(rest).has_value()) return true;
  const bool is_new_enough = range.since.empty() || !IsOlder(version, range.since);
  return is_new_enough && (range.before.empty() || IsOlder(version, range.before));
}

// Rules about stages hold for the replicas of each group, and some for the groups themselves.
bool IsBroken(const LegalityRule& rule, const EstimatorProblem& problem, const ParallelPlan& plan) {
  if (rule.is_broken(problem, plan)) return true;
  return std::ranges::any_of(plan.replica_groups, [&](const ReplicaGroup& group) {
    return rule.is_broken(problem, PlanOfReplica(plan, group));
  });
}

std::vector<const LegalityRule*> Applying(const EstimatorProblem& problem, const ParallelPlan& plan,
                                          bool are_cautions) {
  std::vector<const LegalityRule*> rules;
  const bool has_stages = StagesNamePools(plan);
  for (const LegalityRule* rule : problem.legality) {
    if (rule->is_for_stages != has_stages || rule->is_caution != are_cautions) continue;
    if (IsBroken(*rule, problem, plan)) rules.push_back(rule);
  }
  return rules;
}

}  // namespace

bool IsListed(std::string_view name, std::string_view list) {
  for (std::size_t at = list.find(name); at != std::string_view::npos;
       at = list.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

bool IsOlder(std::string_view a, std::string_view b) {
  while (true) {
    const std::optional<int> left = TakeNumber(a);
    const std::optional<int> right = TakeNumber(b);
    if (!left.has_value() || !right.has_value()) return !left.has_value() && right.has_value();
    if (*left != *right) return *left < *right;
  }
}

std::vector<const LegalityRule*> AllLegalityRules() {
  std::vector<const LegalityRule*> rules;
  for (const std::span<const LegalityRule> table :
       {MegatronRules(), FlagScaleRules(), PyTorchRules(), OtherRules(), StageRules()}) {
    for (const LegalityRule& rule : table) rules.push_back(&rule);
  }
  return rules;
}

std::vector<const LegalityRule*> LegalityRulesOf(std::string_view framework,
                                                 std::string_view version) {
  std::vector<const LegalityRule*> rules = AllLegalityRules();
  std::erase_if(rules, [&](const LegalityRule* rule) {
    if (rule->frameworks.empty()) return false;
    return !IsListed(framework, rule->frameworks) || !Holds(rule->versions, version);
  });
  std::ranges::stable_sort(rules, {}, &LegalityRule::decided_by);
  return rules;
}

const LegalityRule* BrokenRule(const EstimatorProblem& problem, const ParallelPlan& plan,
                               Dimension just_set) {
  for (const LegalityRule* rule : problem.legality) {
    if (rule->is_for_stages || rule->decided_by != just_set) continue;
    if (rule->is_broken(problem, plan)) return rule;
  }
  return nullptr;
}

std::vector<const LegalityRule*> BrokenRules(const EstimatorProblem& problem,
                                             const ParallelPlan& plan) {
  return Applying(problem, plan, /*are_cautions=*/false);
}

std::vector<const LegalityRule*> CautionsAbout(const EstimatorProblem& problem,
                                               const ParallelPlan& plan) {
  return Applying(problem, plan, /*are_cautions=*/true);
}

}  // namespace meshwright
