#include "cli/commands/place_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/local/local_store.h"
#include "cli/place/placement_files.h"
#include "cli/place/placement_report.h"
#include "cli/program/field_names.h"
#include "cli/program/interrupt.h"
#include "cli/program/terminal.h"
#include "cli/reports/print_answer.h"
#include "cli/source/connection.h"
#include "meshwright/v1/placement.pb.h"
#include "search_space/base/status.h"
#include "server/placement/place_jobs.h"
#include "server/placement/question.h"
#include "server/placement/tuner.h"
#include "server/process/exit_code.h"
#include "server/rpc/client/client.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

// A server's call without a deadline ends after half a minute.
constexpr std::chrono::milliseconds kServerTime = std::chrono::hours(1);

struct PlaceOptions {
  std::string jobs = {};
  std::string clusters = {};
  std::string objective = "throughput";
  std::string solver = "auto";
  double solver_seconds = 60;
};

absl::StatusOr<v1::PlacementAnswer> AnswerTo(StatedPlacement stated, const GlobalFlags& flags) {
  ASSIGN_OR_RETURN(const Knowledge knowledge, LoadKnowledge(flags.chips));
  ASSIGN_OR_RETURN(const PlacementQuestion question, CheckPlacement(stated, knowledge));
  const Interrupt interrupt;
  if (!flags.server.empty()) {
    ASSIGN_OR_RETURN(Client client, ConnectTo(flags));
    ASSIGN_OR_RETURN(
        v1::PlaceJobsResponse response,
        client.PlaceJobs(RequestOf(stated), {.timeout = kServerTime, .cancel = interrupt.token()}));
    return std::move(*response.mutable_placement());
  }
  PlacementControl control = {
      .cancel = interrupt.token(), .progress = [](std::size_t done, std::size_t all) {
        OverwriteStderrLine(done < all ? fmt::format("tuned {} of {} questions", done, all)
                                       : std::string());
      }};
  ASSIGN_OR_RETURN(control.history, LocalHistory(flags.store, knowledge, std::nullopt));
  return PlaceJobs(question, knowledge, std::move(control));
}

int RunPlace(const PlaceOptions& options, const GlobalFlags& flags) {
  PlacementFiles files = ReadPlacementFiles(options.jobs, options.clusters);
  PrintNotes(files.notes);
  files.stated.objective = options.objective;
  files.stated.solver = options.solver;
  files.stated.solver_seconds = options.solver_seconds;
  FieldNames names = files.names;
  names.push_back({.field = "objective", .flag = "--objective"});
  const auto answer = AnswerTo(std::move(files.stated), flags);
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
      "how to solve the integer program: auto takes the exact search for up to 12 jobs; for "
      "more jobs, or if that search proves no optimum, it takes CBC or GLPK if one is installed");
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
