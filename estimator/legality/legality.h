#pragma once

#include <string_view>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns every rule, grouped by framework, for tests and the documentation.
std::vector<const LegalityRule*> AllLegalityRules();

// Returns the rules that hold for a framework in this version, in the order in which a walk decides
// them. An unknown version (an empty text, or one without a number) has the rules of all versions.
std::vector<const LegalityRule*> LegalityRulesOf(std::string_view framework,
                                                 std::string_view version);

// Returns true if the name is one of those in the list, which are separated by spaces.
bool IsListed(std::string_view name, std::string_view list);

// Returns the first rule or caution that a plan breaks among those that the walk decides by setting
// the dimension `just_set`, or null. A search leaves such plans out.
const LegalityRule* BrokenRule(const EstimatorProblem& problem, const ParallelPlan& plan,
                               Dimension just_set);

// Returns every rule for which the framework refuses the plan.
std::vector<const LegalityRule*> BrokenRules(const EstimatorProblem& problem,
                                             const ParallelPlan& plan);

// Returns the cautions about a plan.
std::vector<const LegalityRule*> CautionsAbout(const EstimatorProblem& problem,
                                               const ParallelPlan& plan);

// Returns true if version `a` is older than `b`, by the numbers between its dots ("0.9" < "0.12").
bool IsOlder(std::string_view a, std::string_view b);

}  // namespace meshwright
