#include "server/tuner/question/resolved_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "search_space/base/status.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

absl::Status RequireOnePool(const Problem& problem) {
  if (problem.cluster.pools.size() == 1) return absl::OkStatus();
  return WithReason(
      absl::UnimplementedError("cluster.pools: a search over several pools is not available; "
                               "`evaluate` takes plans with explicit stages"),
      "MIXED_CLUSTER_SEARCH");
}

}  // namespace

absl::StatusOr<ResolvedStudy> ResolveStudy(StudyRequest request, const Knowledge& knowledge) {
  ASSIGN_OR_RETURN(Problem problem, ResolveProblem(request.question, knowledge));
  RETURN_IF_ERROR(RequireOnePool(problem));
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
  study.problem = std::move(problem);
  return study;
}

absl::StatusOr<ResolvedCase> ResolveCase(const EvaluateRequest& request,
                                         QuestionResolver& resolver) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Problem> problem, resolver.Resolve(request.question));
  ASSIGN_OR_RETURN(ResolvedPlan plan, ResolveLaunchedPlan(request.plan, *problem, "plan"));
  return ResolvedCase{
      .question = request.question, .problem = std::move(problem), .plan = std::move(plan)};
}

}  // namespace meshwright
