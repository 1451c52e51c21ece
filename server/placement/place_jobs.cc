#include "server/placement/place_jobs.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/placement/placement_answer.h"
#include "server/placement/placement_table.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/consequences.h"
#include "server/tuner/placement/exact_search.h"
#include "server/tuner/placement/integer_program.h"
#include "server/tuner/placement/placement.h"
#include "server/tuner/placement/solver.h"

namespace meshwright {
namespace {

// Returns a solver that begins no program after the end, and has only the time until then. With one
// thread, it solves one program at a time.
ProgramSolver SolverUntilEnd(SolverKind kind, Seconds longest, std::int64_t node_count,
                             const PlacementControl& control) {
  auto turn = control.most_threads == 1 ? std::make_shared<std::mutex>() : nullptr;
  return [=, cancel = control.cancel,
          end = control.end](const IntegerProgram& program) -> absl::StatusOr<ProgramSolution> {
    std::unique_lock<std::mutex> lock;
    if (turn != nullptr) lock = std::unique_lock(*turn);
    if (cancel.stop_requested()) return absl::CancelledError("stopped before the jobs were placed");
    const Seconds left = end - std::chrono::system_clock::now();
    if (left <= Seconds(0)) {
      return absl::DeadlineExceededError("all jobs were tuned; no time was left to place them");
    }
    return MakeSolver(kind,
                      {.seconds = std::min(longest, left), .node_count = node_count})(program);
  };
}

absl::StatusOr<v1::PlacementAnswer> PlacedBy(const PlacementTable& table,
                                             PlacementObjective objective, SolverKind kind,
                                             const ProgramSolver& solve) {
  const AssignmentProblem problem = ProblemOf(table, objective);
  PlacementResult result;
  ASSIGN_OR_RETURN(result.placement, Place(problem, solve));
  result.first_come = ScoreOf(problem, FirstComeFirstServed(problem));
  ASSIGN_OR_RETURN(result.displaced, DisplacementsOf(problem, result.placement, solve));
  ASSIGN_OR_RETURN(result.node_values, NodeValues(problem, result.placement, solve));
  v1::PlacementAnswer answer = AnswerOf(table, problem, result);
  answer.mutable_search()->set_solver(std::string(Word(kind)));
  answer.mutable_search()->set_solver_version(SolverVersion(kind).value_or(""));
  return answer;
}

bool IsAllProven(const v1::PlacementAnswer& answer) {
  const auto is_proven = [](const auto& one) { return one.is_proven(); };
  return answer.is_proven() && std::ranges::all_of(answer.displaced(), is_proven) &&
         std::ranges::all_of(answer.pools(), is_proven);
}

// Places by the chosen solver. If none was wanted, the exact search gets little time, and what it
// does not prove is left to a solver that is installed.
absl::StatusOr<v1::PlacementAnswer> PlaceTable(const PlacementTable& table,
                                               const PlacementQuestion& question, SolverKind kind,
                                               const PlacementControl& control) {
  constexpr std::int64_t kFewNodes = 300'000;
  const auto placed_by = [&](SolverKind by, std::int64_t node_count) {
    return PlacedBy(table, question.objective, by,
                    SolverUntilEnd(by, question.solver_seconds, node_count, control));
  };
  if (kind == SolverKind::kExact && !question.solver.has_value()) {
    const std::optional<SolverKind> installed = InstalledSolver();
    auto answer = placed_by(kind, installed.has_value() ? kFewNodes : kMaxSearchNodes);
    if (!installed.has_value() || !answer.ok() || IsAllProven(*answer)) return answer;
    kind = *installed;
  }
  return placed_by(kind, kMaxSearchNodes);
}

}  // namespace

absl::StatusOr<v1::PlacementAnswer> PlaceJobs(const PlacementQuestion& question,
                                              const Knowledge& knowledge,
                                              PlacementControl control) {
  ASSIGN_OR_RETURN(const SolverKind kind,
                   ChooseSolver(question.solver, static_cast<int>(question.jobs.size())));
  PlacementTuner tuner(knowledge, control);
  ASSIGN_OR_RETURN(const PlacementTable table, TuneAll(question.jobs, question.clusters, tuner));
  ASSIGN_OR_RETURN(v1::PlacementAnswer answer, PlaceTable(table, question, kind, control));
  answer.mutable_search()->set_question_count(tuner.question_count());
  return answer;
}

absl::StatusOr<v1::PlaceJobsResponse> AnswerPlaceJobs(const v1::PlaceJobsRequest& request,
                                                      const QuestionContext& context,
                                                      std::chrono::system_clock::time_point end) {
  ASSIGN_OR_RETURN(const PlacementQuestion question,
                   CheckPlacement(StatedIn(request), context.knowledge));
  PlacementControl control = {.cancel = context.cancel, .end = end, .most_threads = 1};
  ASSIGN_OR_RETURN(control.history, context.history(std::nullopt));
  v1::PlaceJobsResponse response;
  ASSIGN_OR_RETURN(*response.mutable_placement(),
                   PlaceJobs(question, context.knowledge, std::move(control)));
  return response;
}

}  // namespace meshwright
