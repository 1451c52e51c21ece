#pragma once

#include <string_view>

#include "estimator/problem/estimator_problem.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The versions of a framework that a rule is about: from `since` on, before `before`. Empty ends
// are open.
struct VersionRange {
  std::string_view since = {};
  std::string_view before = {};
};

// Plans that a framework refuses to run, by its own checks or documentation.
struct LegalityRule {
  // Names of profiles, separated by spaces. Empty: any framework, by a fact of its profile.
  std::string_view frameworks = {};
  VersionRange versions = {};
  // The last dimension that the rule reads, in the order in which a space is walked.
  Dimension decided_by = Dimension::kTensorParallel;
  std::string_view field = {};     // field of the plan at which the mistake is reported
  std::string_view sentence = {};  // for people
  std::string_view source = {};    // where the framework says so
  bool (*is_broken)(const EstimatorProblem& problem, const ParallelPlan& plan) = nullptr;
  // The framework runs such plans with a setting that the plan does not state: no refusal, only a
  // caution.
  bool is_caution = false;
  // About plans whose stages name their pools; all other rules are about plans that have none.
  bool is_for_stages = false;
  bool reads_profile = false;  // by facts of the profile, which are not those of other frameworks
};

}  // namespace meshwright
