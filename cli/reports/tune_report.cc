#include "cli/reports/tune_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "cli/reports/launch_lines.h"
#include "cli/reports/learnt_lines.h"
#include "cli/reports/table.h"
#include "cli/reports/words.h"

namespace meshwright {
namespace {

constexpr int kBarWidth = 30;

std::string Heading(const std::string& text, const ReportNotes& notes) {
  return notes.has_color ? fmt::format("\n\x1b[1m{}\x1b[0m\n", text) : fmt::format("\n{}\n", text);
}

// Shows the estimate and its central 80 % under "step time".
std::string IntervalText(const v1::Estimate& estimate) {
  return fmt::format("{} ({} .. {})", SecondsText(estimate.step_time_seconds()),
                     SecondsText(estimate.step_time_low_seconds()),
                     SecondsText(estimate.step_time_high_seconds()));
}

std::string FullWords(const v1::RankedPlan& ranked) {
  const std::string words = PlanWords(ranked.plan());
  return ranked.has_precision() ? ranked.precision() + " " + words : words;
}

std::vector<std::string> PlanRow(std::string rank, const v1::RankedPlan& ranked) {
  const v1::Estimate& e = ranked.estimate();
  return {std::move(rank),
          IntervalText(e),
          CountText(static_cast<std::int64_t>(e.tokens_per_second_per_device())),
          PercentText(e.model_flops_utilization_ratio()),
          GibText(e.peak_memory_bytes()),
          GibText(e.memory_capacity_bytes() - e.reserved_memory_bytes()),
          ProbabilityText(e.fit_probability_ratio()),
          ranked.has_fastest_probability_ratio()
              ? ProbabilityText(ranked.fastest_probability_ratio())
              : "-",
          FullWords(ranked)};
}

// Says which plans a line of the table stands for besides its own.
std::string LikeLines(const v1::TuneResult& result) {
  std::string lines;
  int rank = 0;
  for (const v1::RankedPlan& ranked : result.plans()) {
    ++rank;
    if (ranked.like_count() == 0) continue;
    std::vector<std::string> ranges;
    for (const v1::FieldRange& range : ranked.like_ranges()) {
      ranges.push_back(fmt::format("{} {}", range.field(), range.values()));
    }
    lines += fmt::format("{}{}: {} more that cannot be told apart: {}\n", kIndent, rank,
                         CountText(ranked.like_count()), fmt::join(ranges, ", "));
  }
  return lines;
}

std::string PlanTable(const v1::TuneResult& result) {
  Table table({{.title = "#", .align = Align::kRight},
               {.title = "step time (80 % interval)"},
               {.title = "tokens/s/device", .align = Align::kRight},
               {.title = "MFU", .align = Align::kRight},
               {.title = "peak GiB", .align = Align::kRight},
               {.title = "headroom GiB", .align = Align::kRight},
               {.title = "fits", .align = Align::kRight},
               {.title = "fastest", .align = Align::kRight},
               {.title = "plan"}});
  int rank = 0;
  for (const v1::RankedPlan& ranked : result.plans()) {
    table.AddRow(PlanRow(fmt::format("{}", ++rank), ranked));
  }
  if (result.has_baseline()) table.AddRow(PlanRow("baseline", result.baseline()));
  return table.Text(kIndent) + LikeLines(result);
}

// Says what to do, and why.
std::string Verdict(const v1::TuneResult& result) {
  if (result.recommendation().empty()) return "";
  return fmt::format("{} {}\n",
                     result.recommendation() == "launch" ? "Launch plan 1." : "Keep your plan.",
                     result.reason());
}

std::string GainLine(const v1::TuneResult& result) {
  if (result.plans().empty() || !result.has_baseline()) return "";
  const v1::Estimate& base = result.baseline().estimate();
  if (!base.fits()) return "The baseline does not fit into memory.\n";
  const double best = result.plans(0).estimate().step_time_seconds();
  const double saved = base.step_time_seconds() - best;
  const bool is_advised = !result.recommendation().empty();
  if (is_advised && result.baseline().plan_digest() == result.plans(0).plan_digest()) {
    return "Plan 1 is the baseline.\n";
  }
  if (is_advised && saved <= 0) {
    return fmt::format(
        "By the model the baseline is {} faster than plan 1, but it fits with a probability of "
        "{}.\n",
        PercentText(best / base.step_time_seconds() - 1),
        ProbabilityText(base.fit_probability_ratio()));
  }
  if (saved <= 0) return "The baseline is the best plan known: keep it.\n";
  return fmt::format("{:.2f}x the baseline's speed: {} less a step ({}).\n",
                     base.step_time_seconds() / best, SecondsText(saved),
                     PercentText(saved / base.step_time_seconds()));
}

std::string ParetoTable(const v1::TuneResult& result, const ReportNotes& notes) {
  if (result.pareto_front().empty()) return "";
  Table table({{.title = "memory left", .align = Align::kRight},
               {.title = "step time"},
               {.title = "slower by", .align = Align::kRight},
               {.title = "headroom GiB", .align = Align::kRight},
               {.title = "plan"}});
  const double fastest = result.pareto_front(0).plan().estimate().step_time_seconds();
  for (const v1::ParetoPoint& point : result.pareto_front()) {
    const v1::Estimate& e = point.plan().estimate();
    table.AddRow({PercentText(point.free_memory_ratio()), SecondsText(e.step_time_seconds()),
                  PercentText(e.step_time_seconds() / fastest - 1),
                  GibText(e.memory_capacity_bytes() - e.reserved_memory_bytes()),
                  FullWords(point.plan())});
  }
  return Heading("Fastest plans that leave this much of each device's memory free", notes) +
         table.Text(kIndent);
}

// Answers written before repeats existed have no purpose.
bool IsRepeat(const v1::Trial& trial) {
  return trial.purpose() == "reference" || trial.purpose() == "confirm";
}

// Shows what more trials could have gained.
std::string RemainingLine(const v1::TrialSummary& summary) {
  if (!summary.has_best_step_time_seconds() || !summary.has_optimistic_step_time_seconds()) {
    return "";
  }
  const double gain = summary.remaining_gain_ratio();
  return fmt::format(
      "best measured by then {}; the most promising remaining plan takes {} at best{}\n",
      SecondsText(summary.best_step_time_seconds()),
      SecondsText(summary.optimistic_step_time_seconds()),
      gain > 0 ? fmt::format(" ({} less)", PercentText(gain)) : ", which is not less time");
}

std::string TrialLine(const v1::TuneResult& result) {
  const v1::TrialSummary& summary = result.trial_summary();
  const auto tried = std::ranges::count_if(result.trials(), std::not_fn(IsRepeat));
  return fmt::format("{} of {} plans tried in {:.2f} device-hours; ended by {}\n", CountText(tried),
                     CountText(summary.candidate_count()), summary.device_seconds() / 3600,
                     summary.stop_reason()) +
         RemainingLine(summary);
}

// Shows the ratio to the last run of the baseline before this trial.
std::string RatioText(const v1::Trial& trial) {
  if (trial.outcome() != "ok" || !trial.has_reference_step_time_seconds()) return "-";
  return fmt::format("{:.2f}", trial.step_time_seconds() / trial.reference_step_time_seconds());
}

std::string TrialTable(const v1::TuneResult& result, const ReportNotes& notes) {
  if (result.trials().empty()) return "";
  const bool has_repeats = std::ranges::any_of(result.trials(), IsRepeat);
  std::vector<Column> columns = {{.title = "#", .align = Align::kRight},
                                 {.title = "outcome"},
                                 {.title = "step time"},
                                 {.title = "expected"},
                                 {.title = "to run", .align = Align::kRight},
                                 {.title = "plan"}};
  if (has_repeats) {
    columns.insert(columns.begin() + 1, {.title = "for"});
    columns.insert(columns.begin() + 4, {.title = "/ baseline", .align = Align::kRight});
  }
  Table table(std::move(columns));
  int number = 0;
  std::string remarks;
  for (const v1::Trial& trial : result.trials()) {
    const bool ran = trial.outcome() == "ok";
    std::vector<std::string> cells = {fmt::format("{}", ++number),
                                      EndWords(trial.outcome(), trial.failure_class()),
                                      ran ? SecondsText(trial.step_time_seconds()) : "-",
                                      SecondsText(trial.expected_step_time_seconds()),
                                      PercentText(trial.success_probability_ratio()),
                                      PlanWords(trial.plan())};
    if (has_repeats) {
      cells.insert(cells.begin() + 1, trial.purpose());
      cells.insert(cells.begin() + 4, RatioText(trial));
    }
    table.AddRow(std::move(cells));
    if (!trial.failure_message().empty()) {
      remarks += fmt::format("{}trial {}: {}\n", kIndent, number, trial.failure_message());
    }
    for (const std::string& reason : trial.suspect_reasons()) {
      remarks += fmt::format("{}trial {}: its time is doubtful: {}\n", kIndent, number, reason);
    }
  }
  return Heading("Trials, in the order tried", notes) + table.Text(kIndent) + remarks;
}

// Names the plan that is proven to be the fastest of the space by the model.
std::string OptimumWords(const v1::TuneResult& result) {
  const bool is_first = !result.has_model_optimum() || result.plans().empty() ||
                        result.model_optimum().plan_digest() == result.plans(0).plan_digest();
  if (is_first) return "; plan 1 is proven the fastest of the space by the model";
  const v1::Estimate& best = result.model_optimum().estimate();
  return fmt::format("; proven the fastest by the model: {}, fits with {}: {}",
                     SecondsText(best.step_time_seconds()),
                     ProbabilityText(best.fit_probability_ratio()),
                     FullWords(result.model_optimum()));
}

std::string SearchLine(const v1::GetStudyResponse& answer) {
  if (answer.result().has_trial_summary()) return TrialLine(answer.result());
  const v1::Search& search = answer.result().search();
  std::string text =
      fmt::format("{} of {} plans estimated in {}", CountText(search.evaluated_count()),
                  CountText(search.space_count()), SecondsText(answer.study().search_seconds()));
  const auto by_bounds = search.pruned_count_by_rule().find("bound");
  const bool leans_on_vendor = by_bounds != search.pruned_count_by_rule().end() &&
                               by_bounds->second > 0 && !answer.result().plans().empty() &&
                               answer.result().plans(0).estimate().cost_model().state() == "used";
  if (search.complete() && leans_on_vendor) {
    text += "; the best of the space if the cost model's own bounds are right";
  } else if (search.complete()) {
    text += search.optimality_gap_ratio() > 0
                ? fmt::format("; at most {} slower than the best of the space",
                              PercentText(search.optimality_gap_ratio()))
                : OptimumWords(answer.result());
  } else if (answer.study().state() == "cancelled") {
    text += "; cancelled: the best so far";
  } else if (answer.study().outcome() == "deadline_cut") {
    text += "; ended by the deadline: the best so far";
  } else {
    text += "; the best of these, not proven best of the space";
  }
  const bool has_plans = !answer.result().plans().empty();
  return text + "\n" + (has_plans ? CostModelLine(answer.result().plans(0).estimate()) : "");
}

std::string PruneTable(const google::protobuf::Map<std::string, std::int64_t>& pruned,
                       std::int64_t space_count, const ReportNotes& notes) {
  if (pruned.empty()) return "";
  std::vector<std::pair<std::string, std::int64_t>> rules(pruned.begin(), pruned.end());
  std::ranges::sort(rules, [](const auto& a, const auto& b) {
    return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
  });
  Table table({{.title = "rule"},
               {.title = "plans", .align = Align::kRight},
               {.title = "share", .align = Align::kRight}});
  for (const auto& [rule, count] : rules) {
    const double share = static_cast<double>(count) / static_cast<double>(space_count);
    table.AddRow({rule, CountText(count), space_count > 0 ? PercentText(share) : "-"});
  }
  return Heading("Pruned", notes) + table.Text(kIndent);
}

// Shows the largest first and leaves out zeros.
template <typename Value, typename Format>
std::string BreakdownTable(const google::protobuf::Map<std::string, Value>& lines, Format format) {
  std::vector<std::pair<std::string, double>> sorted;
  double total = 0;
  for (const auto& [cause, value] : lines) {
    if (value != 0) sorted.emplace_back(cause, static_cast<double>(value));
    total += static_cast<double>(value);
  }
  std::ranges::sort(sorted, [](const auto& a, const auto& b) {
    return std::pair(-a.second, a.first) < std::pair(-b.second, b.first);
  });
  Table table({{}, {.align = Align::kRight}, {.align = Align::kRight}, {}});
  for (const auto& [cause, value] : sorted) {
    const double share = value / total;
    table.AddRow({cause, format(value), PercentText(share), Bar(share, kBarWidth)});
  }
  return table.Text(kIndent);
}

std::string MemoryTable(const v1::Estimate& estimate) {
  return BreakdownTable(estimate.memory_breakdown_bytes(), [](double bytes) {
    return GibText(static_cast<std::int64_t>(bytes)) + " GiB";
  });
}

std::string WinnerBreakdown(const v1::Estimate& estimate, const ReportNotes& notes) {
  return Heading("Where the step of plan 1 goes", notes) +
         BreakdownTable(estimate.breakdown_seconds(), SecondsText) +
         Heading("What fills its busiest device", notes) + MemoryTable(estimate) +
         fmt::format(
             "{}peak {} GiB, in use {} GiB of {} GiB; fits with probability {}; {}, {}\n", kIndent,
             GibText(estimate.peak_memory_bytes()), GibText(estimate.reserved_memory_bytes()),
             GibText(estimate.memory_capacity_bytes()),
             PercentText(estimate.fit_probability_ratio()), estimate.tier(), estimate.provenance());
}

std::string DefaultsTable(const v1::TuneResult& result, const ReportNotes& notes) {
  if (result.applied_defaults().empty()) return "";
  Table table({{.title = "field"}, {.title = "value"}, {.title = "source"}});
  for (const v1::AppliedDefault& applied : result.applied_defaults()) {
    table.AddRow({applied.field(), applied.value(), applied.source()});
  }
  return Heading("Defaults that were applied", notes) + table.Text(kIndent);
}

std::string LearntReport(const v1::TuneResult& result, const ReportNotes& notes) {
  if (!result.has_calibration()) return "";
  return Heading("Learnt from measured runs", notes) + LearntLines(result.calibration());
}

std::string WarningLines(const v1::TuneResult& result, const ReportNotes& notes) {
  std::string lines;
  for (const std::string& warning : result.warnings()) lines += kIndent + warning + "\n";
  if (!result.plans().empty()) {
    for (const std::string& warning : result.plans(0).estimate().warnings()) {
      lines += fmt::format("{}plan 1: {}\n", kIndent, warning);
    }
  }
  return lines.empty() ? "" : Heading("Warnings", notes) + lines;
}

std::string ExportLines(const v1::RankedPlan& winner, const ReportNotes& notes) {
  std::vector<std::string> frameworks;
  for (const auto& [framework, text] : winner.exports()) frameworks.push_back(framework);
  std::ranges::sort(frameworks);
  std::string text;
  for (const std::string& framework : frameworks) {
    text += Heading(fmt::format("Plan 1 for {}", framework), notes);
    text += ExportText(winner, framework);
    const std::string launch_notes = LaunchNotes(winner, framework);
    if (!launch_notes.empty()) text += "\n" + launch_notes;
  }
  return text;
}

std::string Title(const v1::Study& study) {
  return fmt::format("{} on {} ({} devices)", study.model_name(), study.cluster_name(),
                     CountText(study.device_count()));
}

std::string InfeasibleReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::Infeasible& infeasible = answer.infeasible();
  std::string text =
      Heading(fmt::format("Nothing fits: {}", Title(answer.study())), notes).substr(1);
  if (infeasible.has_nearest()) {
    text += fmt::format(
        "The plan that needs least memory lacks {} GiB a device; {} take most of its memory.\n",
        GibText(infeasible.missing_bytes()), infeasible.binding_memory_kind());
    text += Heading("Its memory: " + PlanWords(infeasible.nearest().plan()), notes);
    text += MemoryTable(infeasible.nearest().estimate());
    text += fmt::format("{}in use {} GiB of {} GiB\n", kIndent,
                        GibText(infeasible.nearest().estimate().reserved_memory_bytes()),
                        GibText(infeasible.nearest().estimate().memory_capacity_bytes()));
  } else {
    text += "No plan is legal for this model, workload and cluster.\n";
  }
  if (!infeasible.suggestions().empty()) {
    text += Heading("Smallest changes that would fit", notes);
    for (const std::string& suggestion : infeasible.suggestions()) {
      text += kIndent + suggestion + "\n";
    }
  }
  std::int64_t pruned = 0;
  for (const auto& [rule, count] : infeasible.pruned_count_by_rule()) pruned += count;
  return text + PruneTable(infeasible.pruned_count_by_rule(), pruned, notes);
}

std::string ResultReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::TuneResult& result = answer.result();
  std::string text = Heading(Title(answer.study()), notes).substr(1);
  text += Verdict(result) + SearchLine(answer) + "\n" + PlanTable(result) + GainLine(result);
  text += ParetoTable(result, notes) + TrialTable(result, notes);
  text += PruneTable(result.search().pruned_count_by_rule(), result.search().space_count(), notes);
  if (!result.plans().empty()) text += WinnerBreakdown(result.plans(0).estimate(), notes);
  text += LearntReport(result, notes) + DefaultsTable(result, notes) + WarningLines(result, notes);
  if (!result.plans().empty()) text += ExportLines(result.plans(0), notes);
  return text;
}

// Shows a study without an answer: it still runs, it failed, or it was cancelled before it found a
// plan.
std::string StateReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::Study& study = answer.study();
  std::string text = Heading(Title(study), notes).substr(1);
  text += "state: " + study.state();
  if (!study.outcome().empty()) text += fmt::format(" ({})", study.outcome());
  text += "\n";
  if (!study.error_message().empty()) text += study.error_message() + "\n";
  return text;
}

}  // namespace

std::string StudyReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  std::string text;
  if (answer.has_result()) {
    text = ResultReport(answer, notes);
  } else if (answer.has_infeasible()) {
    text = InfeasibleReport(answer, notes);
  } else {
    text = StateReport(answer, notes);
  }
  if (!notes.recorded.empty()) text += "\n" + notes.recorded + "\n";
  return text;
}

std::string CostModelLine(const v1::Estimate& estimate) {
  if (!estimate.has_cost_model()) return "";
  const v1::CostModelSource& model = estimate.cost_model();
  if (model.state() != "used") {
    return fmt::format("FALLBACK: all figures are the built-in model's; cost model {}: {}\n",
                       model.name(), model.reason());
  }
  const std::string calibrated = model.calibration_version().empty()
                                     ? ""
                                     : fmt::format(", calibration {}", model.calibration_version());
  return fmt::format("Step times by cost model {} {} of {}{}; memory by the built-in model\n",
                     model.name(), model.version(), model.vendor(), calibrated);
}

std::string BreakdownReport(const v1::Estimate& estimate) {
  return BreakdownTable(estimate.breakdown_seconds(), SecondsText) + "\n" + MemoryTable(estimate);
}

}  // namespace meshwright
