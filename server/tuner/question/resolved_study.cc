#include "server/tuner/question/resolved_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/legality/chip_rules.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

constexpr std::size_t kMaxMixedPools = 6;

// Returns UNIMPLEMENTED if a request for several pools asks for more than a search by the built-in
// model.
absl::Status CheckMixedRequest(const StudyRequest& request, const Problem& problem) {
  const std::size_t pools = problem.cluster.pools.size();
  if (pools == 1) return absl::OkStatus();
  if (request.trials.has_value()) return RequireOnePool(problem, "a study with trials");
  if (request.cost_model.has_value())
    return RequireOnePool(problem, "a search by a vendor's model");
  if (request.pareto) return RequireOnePool(problem, "a Pareto front");
  if (request.strategy != kExhaustive) {
    return RequireOnePool(problem, "another strategy than exhaustive");
  }
  if (pools <= kMaxMixedPools) return absl::OkStatus();
  return InvalidFields(
      {{.field = "cluster.pools",
        .description = fmt::format("{} pools; a search mixes at most {}", pools, kMaxMixedPools)}});
}

}  // namespace

absl::Status RequireOnePool(const Problem& problem, std::string_view what) {
  if (problem.cluster.pools.size() == 1) return absl::OkStatus();
  return WithReason(
      absl::UnimplementedError(fmt::format(
          "cluster.pools: {} is not available for several pools; `tune` searches them by the "
          "built-in model, and `evaluate` takes plans with explicit stages",
          what)),
      "MIXED_CLUSTER_SEARCH");
}

absl::StatusOr<ResolvedStudy> ResolveStudy(StudyRequest request, const Knowledge& knowledge) {
  QuestionResolver resolver(knowledge);
  return ResolveStudy(std::move(request), resolver);
}

absl::StatusOr<ResolvedStudy> ResolveStudy(StudyRequest request, QuestionResolver& resolver) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Problem> resolved,
                   resolver.Resolve(request.question));
  const Problem& problem = *resolved;
  RETURN_IF_ERROR(CheckMixedRequest(request, problem));
  std::vector<FieldViolation> found;
  const auto take = [&](absl::StatusOr<ResolvedPlan> plan) {
    if (plan.ok()) return *std::move(plan);
    std::ranges::move(FieldViolations(plan.status()), std::back_inserter(found));
    return ResolvedPlan();
  };
  ResolvedStudy study;
  if (request.baseline.has_value()) {
    study.baseline = take(ResolveLaunchedPlan(*request.baseline, problem, "baseline"));
  }
  if (request.trials.has_value()) {
    const std::string& launcher = request.trials->launcher;
    if (FindLauncher(launcher) == nullptr) {
      found.push_back({.field = "trials.launcher",
                       .description = fmt::format("'{}'; must be one of {}", launcher,
                                                  fmt::join(LauncherNames(), ", "))});
    }
    const std::vector<MeasuredPlan>& rows = request.trials->replay;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string path = fmt::format("trials.replay[{}].plan", i);
      study.replay.push_back(take(ResolvePlan(rows[i].plan, problem, path)).plan);
    }
  }
  if (!found.empty()) return InvalidFields(found);
  study.request = std::move(request);
  study.problem = problem;
  return study;
}

absl::StatusOr<ResolvedCase> ResolveCase(const EvaluateRequest& request,
                                         QuestionResolver& resolver) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Problem> problem, resolver.Resolve(request.question));
  const std::vector<FieldViolation> of_chips = ChipViolations(ToEstimatorProblem(*problem));
  if (!of_chips.empty()) return InvalidFields(of_chips);
  ASSIGN_OR_RETURN(ResolvedPlan plan, ResolveLaunchedPlan(request.plan, *problem, "plan"));
  std::shared_ptr<const Problem> own = ProblemOfPlan(problem, plan.plan);
  return ResolvedCase{.question = request.question,
                      .stated = std::move(problem),
                      .problem = std::move(own),
                      .plan = std::move(plan)};
}

}  // namespace meshwright
