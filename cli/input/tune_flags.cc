#include "cli/input/tune_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <map>
#include <string>

#include "cli/input/question_flags.h"
#include "search_space/space/space_request.h"
#include "server/convert/convert.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

// Puts flags under a heading of the help.
void GroupFlags(CLI::App& command, const std::string& heading,
                std::initializer_list<const char*> names) {
  for (const char* const name : names) command.get_option(name)->group(heading);
}

void AddTrialOptions(CLI::App& command, TrialFlags& flags) {
  CLI::Option* const launcher = command.add_option(
      "--launcher", flags.launcher,
      fmt::format("run plans before answering, with one of: {}", fmt::join(LauncherNames(), ", ")));
  command
      .add_option("--replay", flags.replay, "JSON lines with measured plans for --launcher replay")
      ->needs(launcher);
  command
      .add_option("--job", flags.job,
                  "YAML or JSON file that says how to run a plan as a job, for all launchers but "
                  "replay")
      ->needs(launcher);
  command
      .add_option("--job-template", flags.job_template,
                  "name of a job template of the server, which says how to run a plan; --job may "
                  "state limits and metrics beside it")
      ->needs(launcher);
  launcher->needs(command
                      .add_option("--max-trials", flags.max_trials,
                                  "limit on the number of plans to run; required with --launcher")
                      ->needs(launcher));
  command
      .add_option("--max-device-seconds", flags.max_device_seconds,
                  "limit on the device-seconds of all trials")
      ->needs(launcher);
  command
      .add_option("--max-trial-seconds", flags.max_seconds, "limit on the seconds of all trials")
      ->needs(launcher);
  command
      .add_option(
          "--stop-within", flags.stop_within_ratio,
          fmt::format("end when no remaining plan is likely to save more than this share of a "
                      "step ({} for real jobs, 0 for a replay); 0: trials go on until "
                      "--max-trials, or until the rest is ruled out",
                      kJobsStopWithin))
      ->needs(launcher);
  command
      .add_flag("--interleave-baseline", flags.interleave_baseline,
                "for machines whose speed varies: run the baseline again before each trial, "
                "and compare by ratios to it")
      ->needs(launcher);
  command
      .add_option(
          "--confirm-plans", flags.confirm_plans,
          "at the end, run this many of the fastest plans three more times and take the median")
      ->needs(launcher);
  GroupFlags(
      command, "Trials: plans measured before the answer",
      {"--launcher", "--job", "--job-template", "--replay", "--max-trials", "--max-device-seconds",
       "--max-trial-seconds", "--stop-within", "--interleave-baseline", "--confirm-plans"});
}

// Multiplies a number by its unit. Returns "", or the value and the limit.
std::string ReadTokenCount(std::string& text) {
  const std::string stated = text;
  try {
    const CLI::AsNumberWithUnit units(
        std::map<std::string, double>{{"M", 1e6}, {"B", 1e9}, {"T", 1e12}});
    return units(text);
  } catch (const CLI::ValidationError&) {
    return stated + "; must be a number with M, B, T or no unit, such as 300B";
  }
}

void AddRunOptions(CLI::App& command, TuneFlags& flags) {
  CLI::Option* const tokens =
      command
          .add_option("--tokens", flags.token_count,
                      "tokens of the whole training run, such as 2e12 or 2T: also say how many "
                      "days and device-hours it takes, and how much energy at most")
          ->transform(CLI::Validator(ReadTokenCount, ""));
  command
      .add_option("--days", flags.max_days,
                  "days within which the run should end; tune tries parts of each cluster and "
                  "recommends the smallest on which it does")
      ->needs(tokens);
  command
      .add_option("--device-hour-price", flags.device_hour_prices,
                  "price of an hour of a device, or CHIP=PRICE for each of several chips: also say "
                  "what the run costs, or a million tokens without --tokens")
      ->take_all()
      ->allow_extra_args(false);
}

void GroupTuneFlags(CLI::App& command) {
  GroupFlags(command, "Answer",
             {"--baseline", "--top", "--min-fit-probability", "--tie", "--pareto", "--mix-margin"});
  GroupFlags(command, "Measured runs and cost models",
             {"--history", "--history-sequence", "--cost-model", "--allow-fallback"});
  GroupFlags(command, "The whole training run", {"--tokens", "--days", "--device-hour-price"});
  GroupFlags(command, "Search",
             {"--deadline", "--strategy", "--evaluations", "--dimension", "--disable-rule"});
}

}  // namespace

void AddTuneOptions(CLI::App& command, TuneFlags& flags) {
  AddQuestionOptions(command, flags.question);
  AllowVariablesOfOtherScript(command);
  command.parse_complete_callback([&flags] {
    RequireQuestion(flags.question, {.flag = "--baseline", .path = flags.baseline});
  });
  command.add_option(
      "--baseline", flags.baseline,
      "file with the plan to compare with (the one that you would choose by hand): YAML, JSON, or "
      "a file as for --from");
  AddRunOptions(command, flags);
  command.add_option("--top", flags.plan_count, "number of plans in the answer (5)");
  command.add_option("--min-fit-probability", flags.min_fit_probability,
                     "recommend a plan that fits with at least this probability, if there is one "
                     "(0.95)");
  command.add_option(
      "--tie", flags.tie_probability,
      "two plans are tied if neither is faster with at least this probability (0.7); "
      "of tied plans, the one with less risk and simpler settings is recommended; 0.5: no ties");
  command.add_option(
      "--mix-margin", flags.mix_margin,
      "in a cluster of several pools, mix them only if it is sure that the mix gains "
      "more than this share over the best pool alone (0.05)");
  command.add_flag("--pareto", flags.pareto,
                   "also find the fastest plans that leave 10, 20 and 30 % of each device's memory "
                   "free; each takes a search of its own");
  AddCostModelOptions(command, flags.cost_model);
  command.add_option("--history", flags.history,
                     "JSON lines with measured results of earlier runs");
  command.add_option("--history-sequence", flags.history_sequence,
                     "learn from the store's measurements up to this number (all); 0: from none");
  command.add_option("--deadline", flags.deadline_seconds,
                     "seconds until the search ends with the best plan so far");
  command.add_option("--strategy", flags.strategy,
                     fmt::format("how to search: one of {}; the first is the default",
                                 fmt::join(StrategyNames(), ", ")));
  command.add_option("--evaluations", flags.evaluation_limit,
                     "limit on the plans that a strategy other than exhaustive tries (10000)");
  command
      .add_option("--dimension", flags.dimensions,
                  "restrict a dimension of the space: tensor_parallel=2,4, "
                  "pipeline_parallel=..16, schedule=1f1b,zb_h1; one of " +
                      DimensionNames())
      ->take_all();
  command.add_option("--disable-rule", flags.disabled_rules, "switch a prune rule off by its name")
      ->take_all();
  AddTrialOptions(command, flags.trials);
  GroupTuneFlags(command);
}

void AddCostModelOptions(CLI::App& command, CostModelFlags& flags) {
  CLI::Option* const name =
      command.add_option("--cost-model", flags.name,
                         "take step times from this vendor's model (meshwright model list) instead "
                         "of the built-in one");
  command
      .add_flag("--allow-fallback", flags.allow_fallback,
                "if that model fails, answer with the built-in one and say so")
      ->needs(name);
}

absl::Status RequestMistakes(const Parsed<v1::TuneRequest>& request, const GlobalFlags& flags) {
  const auto knowledge = LoadKnowledge(flags.chips);
  if (!knowledge.ok()) return knowledge.status();
  return FromWire(request.message, *knowledge, request.violations).status();
}

}  // namespace meshwright
