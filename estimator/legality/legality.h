#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The versions of a framework that a rule is about: from `since` on, before `before`. Empty ends are
// open.
struct VersionRange {
  std::string_view since = {};
  std::string_view before = {};
};

// Plans that a framework refuses to run, by its own checks or documentation. A rule is for plans of
// one pool; stages of their own shape are checked by nothing here.
struct LegalityRule {
  // Names of profiles, separated by spaces. Empty: any framework, by a fact of its profile.
  std::string_view frameworks = {};
  VersionRange versions = {};
  // The last dimension that the rule reads, in the order in which a space is walked.
  Dimension decided_by = Dimension::kTensorParallel;
  std::string_view field = {};     // of the plan, at which the mistake is reported
  std::string_view sentence = {};  // for people
  std::string_view source = {};    // where the framework says so
  bool (*is_broken)(const EstimatorProblem& problem, const ParallelPlan& plan) = nullptr;
};

// Returns every rule, grouped by framework, for tests and the documentation.
std::vector<const LegalityRule*> AllLegalityRules();

// Returns the rules that hold for a framework in this version, in the order in which a walk decides
// them. An unknown version (an empty text, or one without a number) has the rules of all versions.
std::vector<const LegalityRule*> LegalityRulesOf(std::string_view framework,
                                                 std::string_view version);

// Returns the first rule that the plan breaks among those that the walk decides by setting the
// dimension `just_set`, or null.
const LegalityRule* BrokenRule(const EstimatorProblem& problem, const ParallelPlan& plan,
                               Dimension just_set);

// Returns every rule that the plan breaks.
std::vector<const LegalityRule*> BrokenRules(const EstimatorProblem& problem,
                                             const ParallelPlan& plan);

// Returns whether version `a` is older than `b`, by the numbers between its dots ("0.9" < "0.12").
bool IsOlder(std::string_view a, std::string_view b);

}  // namespace meshwright
