#include "cli/input/tune_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "search_space/space/space_request.h"
#include "server/convert/convert.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

void AddTrialOptions(CLI::App& command, TrialFlags& flags) {
  CLI::Option* const launcher =
      command.add_option("--launcher", flags.launcher,
                         fmt::format("run plans before answering, by: {}; needs --max-trials",
                                     fmt::join(LauncherNames(), ", ")));
  command
      .add_option("--replay", flags.replay,
                  "JSON lines of measured plans: what --launcher replay runs")
      ->needs(launcher);
  command
      .add_option("--job", flags.job,
                  "JSON file: how a plan becomes a job, of all launchers but replay")
      ->needs(launcher);
  launcher->needs(command
                      .add_option("--max-trials", flags.max_trials,
                                  "plans that may be run; required with --launcher")
                      ->needs(launcher));
  command
      .add_option("--max-device-seconds", flags.max_device_seconds,
                  "what trials may occupy, devices times seconds")
      ->needs(launcher);
  command.add_option("--max-trial-seconds", flags.max_seconds, "what trials may take, seconds")
      ->needs(launcher);
  command
      .add_option("--stop-within", flags.stop_within_ratio,
                  fmt::format("end when no plan left is likely to save more than this share of a "
                              "step ({} for real jobs, 0 for a replay); 0: trials go on until "
                              "--max-trials, or until what is left is ruled out",
                              kJobsStopWithin))
      ->needs(launcher);
  command
      .add_flag("--interleave-baseline", flags.interleave_baseline,
                "on machines of which the speed varies: run the baseline again before each trial, "
                "and compare by ratios to it")
      ->needs(launcher);
  command
      .add_option("--confirm-plans", flags.confirm_plans,
                  "run the fastest so many three times more in the end, and take the median")
      ->needs(launcher);
}

}  // namespace

void AddQuestionOptions(CLI::App& command, TuneFlags& flags) {
  command
      .add_option("--model", flags.model,
                  "Hugging Face config.json, or a model in Meshwright's JSON")
      ->required();
  command.add_option("--workload", flags.workload, "JSON file: how the model is trained")
      ->required();
  command.add_option("--cluster", flags.cluster, "JSON file: chips, nodes, links")->required();
  command.add_option("--baseline", flags.baseline,
                     "JSON file: the plan to compare with; left out: what one would take by hand");
  command.add_option("--top", flags.plan_count, "plans in the answer (5)");
  command.add_flag("--pareto", flags.pareto,
                   "also the fastest plans that leave 10, 20 and 30 % of each device's memory "
                   "free; takes a search for each");
  AddCostModelOptions(command, flags.cost_model);
  command.add_option("--history", flags.history, "JSON lines: measured results of earlier runs");
  command.add_option("--history-sequence", flags.history_sequence,
                     "learn from the store's measurements up to this number; 0: from none (all)");
  command.add_option("--deadline", flags.deadline_seconds,
                     "seconds; a search that is cut answers with the best so far");
  command.add_option(
      "--strategy", flags.strategy,
      fmt::format("how to search: {}; the first by default", fmt::join(StrategyNames(), ", ")));
  command.add_option("--evaluations", flags.evaluation_limit,
                     "plans that a strategy other than exhaustive may try (10000)");
  command
      .add_option("--dimension", flags.dimensions,
                  "what is left of a dimension of the space: tensor_parallel=2,4, "
                  "pipeline_parallel=..16, schedule=1f1b,zb_h1; one of " +
                      DimensionNames())
      ->take_all();
  command.add_option("--disable-rule", flags.disabled_rules, "switch a prune rule off by its name")
      ->take_all();
  AddTrialOptions(command, flags.trials);
}

void AddCostModelOptions(CLI::App& command, CostModelFlags& flags) {
  CLI::Option* const name = command.add_option(
      "--cost-model", flags.name,
      "rank by the times of this vendor's model (meshwright model list) instead of the built-in");
  command
      .add_flag("--allow-fallback", flags.allow_fallback,
                "answer by the built-in model, marked as such, when that one cannot be asked")
      ->needs(name);
}

absl::Status RequestMistakes(const Parsed<v1::TuneRequest>& request, const GlobalFlags& flags) {
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return knowledge.status();
  return FromWire(request.message, *knowledge, request.violations).status();
}

}  // namespace meshwright
