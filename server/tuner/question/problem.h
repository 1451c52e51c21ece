#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// A question as the user stated it.
struct Question {
  ModelSpec model = {};
  WorkloadRequest workload = {};
  ClusterRequest cluster = {};
  bool operator==(const Question&) const = default;
};

// The question with every choice made; the pruner and the estimator work on it.
struct Problem {
  ModelSpec model = {};
  Workload workload = {};
  ClusterSpec cluster = {};
  FrameworkProfile profile = {};  // includes the workload's own facts
  std::vector<const LegalityRule*> legality =
      {};  // rules of the framework in the workload's version
  std::vector<FrameworkFactRequest> framework_facts = {};
  SpaceOptions space = {};  // options of a search, limited to what the framework supports
  // Shares in per cent of optimizer states on the host that the framework offers. Their cost rests
  // on an assumed host, so a search tries them only if the user asks for them or nothing else fits.
  std::vector<int> closed_offload_percents = {};
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
};

// Returns what is wrong with the name of a chip that the catalogue did not find. Its message names
// the field too: "chip = H100; names several chips: ...".
std::string ChipMistake(const absl::Status& unknown);

// Returns everything that is wrong with a question, including unknown chips. Paths start with
// "model", "workload" and "cluster".
std::vector<FieldViolation> CheckQuestion(const Question& question, const Knowledge& knowledge);

// Validates the whole question and applies defaults. Returns INVALID_ARGUMENT with every bad field
// at once.
absl::StatusOr<Problem> ResolveProblem(const Question& question, const Knowledge& knowledge);

struct ResolvedPlan {
  ParallelPlan plan = {};
  std::vector<AppliedDefault> applied_defaults = {};
};

// Applies the plan's defaults and checks that it is legal for the problem (device count, divisors,
// schedule). Returns INVALID_ARGUMENT with every bad field at once; paths start with `prefix`.
absl::StatusOr<ResolvedPlan> ResolvePlan(const PlanRequest& plan, const Problem& problem,
                                         std::string_view prefix);

// Does the same for a plan that somebody would launch: returns INVALID_ARGUMENT also if the
// framework refuses to run it. A plan that ran once is resolved without this check.
absl::StatusOr<ResolvedPlan> ResolveLaunchedPlan(const PlanRequest& plan, const Problem& problem,
                                                 std::string_view prefix);

// Opens the space to the closed shares of offload; returns false if there are none.
bool OpenOffload(Problem& problem);

// Returns the request that states every field of `plan`.
PlanRequest StatedPlan(const ParallelPlan& plan);

// Returns the problem with the pool of this name alone. It keeps every choice that was made, and
// warns that the other pools are idle. The problem has such a pool.
Problem OnlyPool(const Problem& problem, std::string_view pool);

// Returns the problem that a plan for `problem` is priced in: `problem` itself unless the plan
// leaves pools idle.
std::shared_ptr<const Problem> ProblemOfPlan(std::shared_ptr<const Problem> problem,
                                             const ParallelPlan& plan);

// Returns the search space of a problem with one pool of devices.
SearchSpace SpaceOf(const Problem& problem);

// Returns the problem as the estimator sees it; it refers to `problem`, which must outlive it.
EstimatorProblem ToEstimatorProblem(const Problem& problem);

}  // namespace meshwright
