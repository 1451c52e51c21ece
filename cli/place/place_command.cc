#include "cli/place/place_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/local/local_store.h"
#include "cli/place/candidates.h"
#include "cli/place/placement_answer.h"
#include "cli/place/placement_files.h"
#include "cli/place/placement_report.h"
#include "cli/place/placement_table.h"
#include "cli/place/tuner.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/process/exit_code.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/consequences.h"
#include "server/tuner/placement/exact_search.h"
#include "server/tuner/placement/integer_program.h"
#include "server/tuner/placement/placement.h"
#include "server/tuner/placement/solver.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

struct PlaceOptions {
  std::string jobs = {};
  std::string clusters = {};
  std::string objective = "throughput";
  std::string solver = "auto";
  double solver_seconds = 60;
};

PlacementObjective ObjectiveIn(const std::string& word) {
  for (const auto objective : {PlacementObjective::kDeadline, PlacementObjective::kFair}) {
    if (Word(objective) == word) return objective;
  }
  return PlacementObjective::kThroughput;
}

std::optional<SolverKind> SolverIn(const std::string& word) {
  for (const auto kind : {SolverKind::kExact, SolverKind::kCbc, SolverKind::kGlpk}) {
    if (Word(kind) == word) return kind;
  }
  return std::nullopt;  // auto
}

// The jobs and clusters of correct files.
struct CheckedFiles {
  std::vector<StatedJob> jobs = {};
  std::vector<PlacementCluster> clusters = {};
};

// Finds the mistakes of all jobs and clusters. A question needs both, so each job is asked about
// the first cluster that reads without a mistake, and each cluster for the first such job.
class FilesCheck {
 public:
  FilesCheck(PlacementFiles files, const Knowledge& knowledge)
      : files_(std::move(files)), knowledge_(knowledge), violations_(files_.violations) {}

  absl::StatusOr<CheckedFiles> Run(const PlaceOptions& options) {
    CheckedFiles checked;
    RETURN_IF_ERROR(CheckJobs());
    RETURN_IF_ERROR(CheckClusters(checked.clusters));
    CheckNames(checked.clusters);
    CheckObjective(options);
    if (!violations_.empty()) return InvalidFields(violations_);
    checked.jobs = std::move(files_.jobs);
    return checked;
  }

 private:
  absl::Status CheckJobs() {
    const auto sound = std::ranges::find_if(files_.clusters, [](const StatedCluster& cluster) {
      return cluster.is_readable && cluster.violations.empty();
    });
    for (std::size_t i = 0; i < files_.jobs.size(); ++i) {
      if (!files_.jobs[i].is_object) continue;
      v1::TuneRequest question = files_.jobs[i].question;
      if (sound != files_.clusters.end()) *question.mutable_cluster() = sound->cluster;
      const auto study = FromWire(question, knowledge_, files_.jobs[i].question_violations);
      RETURN_IF_ERROR(Take(study.status(), false, fmt::format("jobs[{}].", i)));
    }
    return absl::OkStatus();
  }

  // Adds the clusters without a mistake.
  absl::Status CheckClusters(std::vector<PlacementCluster>& clusters) {
    const auto sound = std::ranges::find_if(files_.jobs, [](const StatedJob& job) {
      return job.is_object && job.question_violations.empty();
    });
    for (std::size_t k = 0; k < files_.clusters.size(); ++k) {
      const StatedCluster& stated = files_.clusters[k];
      if (!stated.is_readable) continue;
      v1::TuneRequest question;
      if (sound != files_.jobs.end()) question = sound->question;
      *question.mutable_cluster() = stated.cluster;
      const auto study = FromWire(question, knowledge_, stated.violations);
      RETURN_IF_ERROR(Take(study.status(), true, fmt::format("clusters[{}]", k)));
      if (!study.ok()) continue;
      clusters.push_back({.stated = stated.cluster, .spec = study->problem.cluster});
    }
    return absl::OkStatus();
  }

  // Adds the mistakes of the cluster, or all others. Returns a status that lists none.
  absl::Status Take(const absl::Status& status, bool of_cluster, const std::string& prefix) {
    if (status.ok()) return status;
    const std::vector<FieldViolation> found = FieldViolations(status);
    if (found.empty()) return status;
    constexpr std::string_view kCluster = "cluster";
    for (const FieldViolation& one : found) {
      if (one.field.starts_with(kCluster) != of_cluster) continue;
      const std::string field = of_cluster ? one.field.substr(kCluster.size()) : one.field;
      violations_.push_back({.field = prefix + field, .description = one.description});
    }
    return absl::OkStatus();
  }

  void CheckNames(const std::vector<PlacementCluster>& clusters) {
    if (clusters.size() < files_.clusters.size()) return;  // those with mistakes are not here
    std::set<std::string> names;
    for (std::size_t k = 0; k < clusters.size(); ++k) {
      if (names.insert(clusters[k].spec.name).second) continue;
      violations_.push_back({.field = fmt::format("clusters[{}].name", k),
                             .description = fmt::format("\"{}\"; another cluster has this name",
                                                        clusters[k].spec.name)});
    }
  }

  void CheckObjective(const PlaceOptions& options) {
    if (options.objective != "deadline" || files_.jobs.empty()) return;
    if (std::ranges::any_of(files_.jobs, [](const auto& job) { return job.job.has_max_days(); })) {
      return;
    }
    violations_.push_back(
        {.field = "objective", .description = "deadline; needs a job with max_days"});
  }

  PlacementFiles files_;
  const Knowledge& knowledge_;
  std::vector<FieldViolation> violations_;
};

absl::StatusOr<v1::PlacementAnswer> Placed(const PlacementTable& table, const PlaceOptions& options,
                                           SolverKind kind, std::int64_t node_limit) {
  const AssignmentProblem problem = ProblemOf(table, ObjectiveIn(options.objective));
  const ProgramSolver solve =
      MakeSolver(kind, {.seconds = Seconds(options.solver_seconds), .node_count = node_limit});
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
absl::StatusOr<v1::PlacementAnswer> PlacedBy(const PlacementTable& table,
                                             const PlaceOptions& options, SolverKind kind) {
  constexpr std::int64_t kFewNodes = 300'000;
  if (kind == SolverKind::kExact && !SolverIn(options.solver).has_value()) {
    const std::optional<SolverKind> installed = InstalledSolver();
    auto answer = Placed(table, options, kind, installed ? kFewNodes : kMaxSearchNodes);
    if (!installed.has_value() || !answer.ok() || IsAllProven(*answer)) return answer;
    kind = *installed;
  }
  return Placed(table, options, kind, kMaxSearchNodes);
}

absl::StatusOr<v1::PlacementAnswer> AnswerTo(const PlaceOptions& options, const GlobalFlags& flags,
                                             PlacementFiles files) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const CheckedFiles checked,
                   FilesCheck(std::move(files), knowledge).Run(options));
  ASSIGN_OR_RETURN(const SolverKind kind,
                   ChooseSolver(SolverIn(options.solver), static_cast<int>(checked.jobs.size())));
  const Interrupt interrupt;
  ASSIGN_OR_RETURN(HistorySource history, LocalHistory(flags.store, knowledge, std::nullopt));
  PlacementTuner tuner(knowledge, std::move(history), interrupt.token());
  ASSIGN_OR_RETURN(const PlacementTable table, TuneAll(checked.jobs, checked.clusters, tuner));
  ASSIGN_OR_RETURN(v1::PlacementAnswer answer, PlacedBy(table, options, kind));
  answer.mutable_search()->set_question_count(tuner.question_count());
  return answer;
}

int RunPlace(const PlaceOptions& options, const GlobalFlags& flags) {
  if (!flags.server.empty()) {
    PrintNote("error: --server: place runs on this machine; a server has no call for it yet");
    return kExitUsage;
  }
  PlacementFiles files = ReadPlacementFiles(options.jobs, options.clusters);
  PrintNotes(files.notes);
  FieldNames names = files.names;
  names.push_back({.field = "objective", .flag = "--objective"});
  const auto answer = AnswerTo(options, flags, std::move(files));
  if (!answer.ok()) return Fail(NamedAsStated(answer.status(), names), flags.output);
  const bool is_any_placed = std::ranges::any_of(
      answer->jobs(), [](const v1::JobPlacement& job) { return job.nodes_size() > 0; });
  return PrintAs(
      answer, flags.output,
      [](const v1::PlacementAnswer& shown) { return PlacementReport(shown, StdoutColumns()); },
      is_any_placed ? kExitDone : kExitInfeasible);
}

// Adds an option whose value is one of the words; the first is the default.
void AddWords(CLI::App& command, const std::string& name, std::string& value,
              const std::vector<std::string>& words, const std::string& help) {
  command.add_option(name, value, help)
      ->check(CLI::Validator(
          [words](const std::string& word) {
            if (std::ranges::find(words, word) != words.end()) return std::string();
            return fmt::format("{}; must be one of {}", word, fmt::join(words, ", "));
          },
          ""))
      ->type_name(fmt::format("{{{}}}", fmt::join(words, ",")));
}

}  // namespace

void AddPlaceCommand(CLI::App& app, Program& program) {
  auto options = std::make_shared<PlaceOptions>();  // shared: the callback outlives this function
  CLI::App& command =
      *app.add_subcommand("place", "find which of several jobs runs on which of several clusters");
  command
      .add_option("--jobs", options->jobs,
                  "YAML or JSON file with the jobs: each has a name, a model, a workload and, if "
                  "you like, weight, min_devices, max_devices, step_count and max_days; - is stdin")
      ->required();
  command
      .add_option(
          "--clusters", options->clusters,
          "YAML or JSON file with the clusters, each as for `tune` or the path of its file; "
          "- is stdin")
      ->required();
  AddWords(command, "--objective", options->objective, {"throughput", "deadline", "fair"},
           "what to maximise: the weighted sum of throughputs relative to each job's best "
           "(throughput, the default), first the weight of the jobs that meet max_days, or first "
           "the least relative throughput");
  AddWords(
      command, "--solver", options->solver, {"auto", "cbc", "glpk", "exact"},
      "how to solve the integer program: auto takes the exact search for up to 12 jobs, and CBC "
      "or GLPK, if it is installed, for more and for what that search does not prove");
  command
      .add_option("--solver-seconds", options->solver_seconds,
                  "time limit of CBC or GLPK for each program (60); the best assignment so far "
                  "follows, with a bound")
      ->check(CLI::Range(1.0, 86400.0));
  command.callback([options, &program] {
    program.run = [options, &program] { return RunPlace(*options, program.flags); };
  });
}

}  // namespace meshwright
