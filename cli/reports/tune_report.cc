#include "cli/reports/tune_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/reports/kinds_table.h"
#include "cli/reports/launch_lines.h"
#include "cli/reports/learnt_lines.h"
#include "cli/reports/mix_lines.h"
#include "cli/reports/paint.h"
#include "cli/reports/table.h"
#include "cli/reports/text_width.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"

namespace meshwright {
namespace {

// The form that leaves out most, in which only the settings of a file stand together in lines.
constexpr int kShortest = 5;

constexpr int kBarWidth = 30;

std::string Item(const std::string& text, const ReportNotes& notes) {
  return Wrapped(text, notes.columns, kIndent, std::string(kIndent) + kIndent);
}

std::string Heading(const std::string& text, const ReportNotes& notes,
                    Paint paint = Paint::kHeading) {
  return fmt::format("\n{}\n", Painted(text, paint, notes.has_color));
}

// Says what to do, why, and what it risks.
std::string Verdict(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::TuneResult& result = answer.result();
  if (result.recommendation().empty()) return "";
  const bool is_launch = result.recommendation() == "launch";
  const std::string_view advice = is_launch ? "Launch plan 1." : "Keep your plan.";
  std::string text = fmt::format("{} {}", advice, result.reason());
  if (is_launch && !result.plans().empty()) {
    const v1::Estimate& e = result.plans(0).estimate();
    text += fmt::format(
        " One run in ten takes longer than {} a step. The estimate rests on {} figures.",
        SecondsText(e.step_time_high_seconds()), e.provenance());
    const bool is_named = !answer.question().workload().framework().name().empty();
    if (result.plans(0).exports().empty()) {
      text += is_named ? " Plan 1 comes without flags (see the warnings)."
                       : " No framework was named, so there are no flags: --framework names one.";
    }
  }
  return Painted(advice, Paint::kGood, notes.has_color) +
         Wrapped(text, notes.columns).substr(advice.size());
}

// Returns a name of the baseline with what it is, unless the user stated it.
std::string BaselineWords(const v1::TuneResult& result, std::string_view name) {
  const auto& defaults = result.applied_defaults();
  const auto found = std::ranges::find(defaults, "baseline", &v1::AppliedDefault::field);
  if (found == defaults.end()) return std::string(name);
  return found->value() == "recipe"
             ? fmt::format("{}, a published recipe ({})", name, found->source())
             : fmt::format("{}, a plan by rule of thumb", name);
}

std::string GainLine(const v1::TuneResult& result) {
  if (result.plans().empty() || !result.has_baseline()) return "";
  const v1::Estimate& base = result.baseline().estimate();
  if (!base.fits()) return "The baseline (0) does not fit into memory.";
  const double best = result.plans(0).estimate().step_time_seconds();
  const double saved = base.step_time_seconds() - best;
  const bool is_advised = !result.recommendation().empty();
  if (is_advised && IsSame(result.baseline(), result.plans(0))) {
    return fmt::format("Plan 1 is also {}.", BaselineWords(result, "the baseline"));
  }
  if (is_advised && saved <= 0) {
    return fmt::format(
        "By the model the baseline (0) is {} faster than plan 1, but it fits with a probability of "
        "{}.",
        PercentText(best / base.step_time_seconds() - 1),
        ProbabilityText(base.fit_probability_ratio()));
  }
  if (saved <= 0) return "The baseline (0) is the best plan known: keep it.";
  return fmt::format("Plan 1 has {:.2f}x the speed of {}: {} less a step ({}).",
                     base.step_time_seconds() / best, BaselineWords(result, "the baseline (0)"),
                     SecondsText(saved), PercentText(saved / base.step_time_seconds()));
}

std::string ParetoTable(const v1::TuneResult& result, const ReportNotes& notes) {
  if (result.pareto_front().empty()) return "";
  Table table({{.title = "memory left", .align = Align::kRight},
               {.title = "step time"},
               {.title = "slower by", .align = Align::kRight},
               {.title = "headroom GiB", .align = Align::kRight},
               {.title = "fits", .align = Align::kRight},
               {.title = "plan"}});
  const double fastest = result.pareto_front(0).plan().estimate().step_time_seconds();
  for (const v1::ParetoPoint& point : result.pareto_front()) {
    const v1::Estimate& e = point.plan().estimate();
    table.AddRow({PercentText(point.free_memory_ratio()), SecondsText(e.step_time_seconds()),
                  PercentText(e.step_time_seconds() / fastest - 1),
                  GibText(e.memory_capacity_bytes() - e.reserved_memory_bytes()),
                  ProbabilityText(e.fit_probability_ratio()), FullWords(point.plan())});
  }
  return Heading("Fastest plans that leave this much of each device's memory free", notes) +
         table.Text(kIndent, notes.columns);
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
      "The best measured step was {}; the most promising remaining plan takes {} at best{}\n",
      SecondsText(summary.best_step_time_seconds()),
      SecondsText(summary.optimistic_step_time_seconds()),
      gain > 0 ? fmt::format(" ({} less)", PercentText(gain)) : ", which is not less time");
}

std::string TrialLine(const v1::TuneResult& result) {
  const v1::TrialSummary& summary = result.trial_summary();
  const auto tried = std::ranges::count_if(result.trials(), std::not_fn(IsRepeat));
  return fmt::format("{} of {} plans were tried in {:.2f} device-hours; the trials ended by {}\n",
                     CountText(tried), CountText(summary.candidate_count()),
                     summary.device_seconds() / 3600, summary.stop_reason()) +
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
      remarks += Item(fmt::format("trial {}: {}", number, trial.failure_message()), notes);
    }
    for (const std::string& reason : trial.suspect_reasons()) {
      remarks += Item(fmt::format("trial {}: its time is doubtful: {}", number, reason), notes);
    }
  }
  return Heading("Trials, in the order tried", notes) + table.Text(kIndent, notes.columns) +
         remarks;
}

// Names the plan that is proven to be the fastest of the space by the model.
std::string OptimumWords(const v1::TuneResult& result, const ReportNotes& notes) {
  const bool is_first = !result.has_model_optimum() || result.plans().empty() ||
                        IsSame(result.model_optimum(), result.plans(0));
  if (is_first) return "; plan 1 is proven to be the fastest of the space by the model";
  const v1::Estimate& best = result.model_optimum().estimate();
  const std::string text = fmt::format(
      "; the plan with the proven shortest estimate takes {} a step and fits with a "
      "probability of {}",
      SecondsText(best.step_time_seconds()), ProbabilityText(best.fit_probability_ratio()));
  return notes.brevity > 0 ? text : text + ": " + FullWords(result.model_optimum());
}

std::string SearchLine(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  if (answer.result().has_trial_summary()) return TrialLine(answer.result());
  const v1::Search& search = answer.result().search();
  std::string text =
      fmt::format("{} of {} plans were estimated in {}", CountText(search.evaluated_count()),
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
                : OptimumWords(answer.result(), notes);
  } else if (answer.study().state() == "cancelled") {
    text += "; cancelled: the best so far";
  } else if (answer.study().outcome() == "deadline_cut") {
    text += "; ended by the deadline: the best so far";
  } else {
    text += "; the best of these, not proven best of the space";
  }
  const bool has_plans = !answer.result().plans().empty();
  const std::string model = has_plans ? CostModelLine(answer.result().plans(0).estimate()) : "";
  return Wrapped(text, notes.columns) + model;
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
  return Heading("Pruned", notes) + table.Text(kIndent, notes.columns);
}

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
  const char* const tier = estimate.tier() == "closed_form" ? "a closed form" : "a simulation";
  return Heading("Where the step of plan 1 goes", notes) +
         BreakdownTable(estimate.breakdown_seconds(), SecondsText) +
         Heading("Memory of its busiest device", notes) + MemoryTable(estimate) +
         Item(fmt::format(
                  "peak {} GiB, in use {} of {} GiB; it fits with a probability of {}; the "
                  "estimate is {} that rests on {} figures",
                  GibText(estimate.peak_memory_bytes()), GibText(estimate.reserved_memory_bytes()),
                  GibText(estimate.memory_capacity_bytes()),
                  ProbabilityText(estimate.fit_probability_ratio()), tier, estimate.provenance()),
              notes);
}

std::string DefaultsTable(const v1::TuneResult& result, const ReportNotes& notes) {
  if (result.applied_defaults().empty()) return "";
  Table table({{.title = "field"}, {.title = "value"}, {.title = "source"}});
  for (const v1::AppliedDefault& applied : result.applied_defaults()) {
    table.AddRow({applied.field(), applied.value(), applied.source()});
  }
  return Heading("Defaults that were applied", notes) + table.Text(kIndent, notes.columns);
}

std::string LearntReport(const v1::TuneResult& result, const ReportNotes& notes) {
  if (!result.has_calibration()) return "";
  return Heading("Learnt from measured runs", notes) +
         LearntLines(result.calibration(), notes.columns);
}

std::vector<std::string> WarningsOf(const v1::TuneResult& result) {
  std::vector<std::string> warnings(result.warnings().begin(), result.warnings().end());
  if (result.plans().empty()) return warnings;
  for (const std::string& warning : result.plans(0).estimate().warnings()) {
    warnings.push_back("plan 1: " + warning);
  }
  return warnings;
}

// Shows the beginning of each warning, and says how many are not shown.
std::string ShortWarnings(const std::vector<std::string>& warnings, const ReportNotes& notes) {
  constexpr std::size_t kMost[] = {1'000, 1'000, 1'000, 2, 1, 1};  // by brevity
  const std::size_t shown = std::min(kMost[notes.brevity], warnings.size());
  // Two lines, less what the breaks at spaces lose; in the shortest form one line.
  const auto columns =
      static_cast<std::size_t>(notes.brevity < 4 ? 2 * notes.columns - 40 : notes.columns - 16);
  std::string lines;
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string lead = Painted("warning:", Paint::kWarning, notes.has_color);
    lines += lead + Wrapped("warning: " + ShortenedToWords(warnings[i], columns), notes.columns, "",
                            kIndent)
                        .substr(std::string_view("warning:").size());
  }
  if (shown < warnings.size()) {
    const std::size_t more = warnings.size() - shown;
    lines += fmt::format("{} more warning{} (--verbose)\n", more, more == 1 ? "" : "s");
  }
  return lines;
}

std::string WarningLines(const v1::TuneResult& result, const ReportNotes& notes) {
  const std::vector<std::string> warnings = WarningsOf(result);
  if (notes.brevity > 0) return ShortWarnings(warnings, notes);
  std::string lines;
  for (const std::string& warning : warnings) lines += Item(warning, notes);
  return lines.empty() ? "" : Heading("Warnings", notes, Paint::kWarning) + lines;
}

std::string ExportLines(const v1::RankedPlan& winner, const ReportNotes& notes) {
  const std::map<std::string, std::string> exports(winner.exports().begin(),
                                                   winner.exports().end());
  std::string text;
  for (const auto& [framework, flags] : exports) {
    text += Heading(fmt::format("Plan 1 for {}", framework), notes);
    text += ExportText(winner, framework, notes.columns,
                       notes.brevity == kShortest ? FileForm::kShort : FileForm::kWhole);
    if (notes.is_verbose) {
      const std::string facts = LaunchNotes(winner, framework, notes.columns);
      if (!facts.empty()) text += "\n" + facts;
    } else if (const std::string facts = ShortLaunchNotes(winner, framework);
               notes.brevity == 0 && !facts.empty()) {
      text += Wrapped(facts, notes.columns);
    }
  }
  return text;
}

std::string Title(const v1::Study& study) {
  return fmt::format("{} on {} ({} device{})", study.model_name(), study.cluster_name(),
                     CountText(study.device_count()), study.device_count() == 1 ? "" : "s");
}

std::string InfeasibleReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::Infeasible& infeasible = answer.infeasible();
  std::string text =
      Heading(fmt::format("Nothing fits: {}", Title(answer.study())), notes, Paint::kBad).substr(1);
  if (infeasible.has_nearest()) {
    text += Wrapped(
        fmt::format("The plan that needs least memory lacks {} GiB on each device; {} take most of "
                    "its memory.",
                    GibText(infeasible.missing_bytes()), infeasible.binding_memory_kind()),
        notes.columns);
    text += Heading("Its memory", notes);
    text += Item(FullWords(infeasible.nearest()), notes);
    text += MemoryTable(infeasible.nearest().estimate());
    text += fmt::format("{}in use {} GiB of {} GiB\n", kIndent,
                        GibText(infeasible.nearest().estimate().reserved_memory_bytes()),
                        GibText(infeasible.nearest().estimate().memory_capacity_bytes()));
  } else {
    text += "No plan is legal for this model, workload and cluster.\n";
  }
  if (!infeasible.suggestions().empty()) {
    text += Heading(infeasible.has_nearest() ? "Smallest changes that would fit" : "Why", notes);
    for (const std::string& suggestion : infeasible.suggestions()) {
      text += Item(suggestion, notes);
    }
  }
  if (!notes.is_verbose) return text + "\n--verbose shows what was pruned.\n";
  std::int64_t pruned = 0;
  for (const auto& [rule, count] : infeasible.pruned_count_by_rule()) pruned += count;
  return text + PruneTable(infeasible.pruned_count_by_rule(), pruned, notes);
}

std::string ShortDetails(const v1::TuneResult& result, const ReportNotes& notes) {
  std::string text;
  if (!result.plans().empty()) {
    for (const auto& [framework, flags] : result.plans(0).exports()) {
      text += ShortLaunchNotes(result.plans(0), framework) + " ";
    }
  }
  const int count = result.applied_defaults_size();
  text += fmt::format("--verbose also shows the {} default{} that {} applied. {}", count,
                      count == 1 ? "" : "s", count == 1 ? "was" : "were", notes.recorded);
  return Wrapped(text, notes.columns);
}

// Shows what only those want to know who ask for it.
std::string Details(const v1::TuneResult& result, const ReportNotes& notes) {
  if (!notes.is_verbose) {
    const int count = result.applied_defaults_size();
    return "\n" + Wrapped(fmt::format("--verbose shows the {} default{} that {} applied, what was "
                                      "pruned, and where the time and the memory of plan 1 go.",
                                      count, count == 1 ? "" : "s", count == 1 ? "was" : "were"),
                          notes.columns);
  }
  std::string text;
  if (!result.plans().empty()) text += WinnerBreakdown(result.plans(0).estimate(), notes);
  text += PruneTable(result.search().pruned_count_by_rule(), result.search().space_count(), notes);
  if (!result.recommendation().empty()) {
    text +=
        Item("The one or two further searches, for the plan to launch, are not counted.", notes);
  }
  return text + DefaultsTable(result, notes);
}

std::string ResultReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  const v1::TuneResult& result = answer.result();
  std::string text = Heading(Title(answer.study()), notes).substr(1);
  constexpr int kMaxKinds[] = {1'000, 1'000, 3, 2, 1, 1};  // by brevity
  const int most = notes.lists_all_kinds ? result.plans_size() : kMaxKinds[notes.brevity];
  text += Verdict(answer, notes) + MixLines(result, notes.columns) + SearchLine(answer, notes) +
          "\n" + KindsTable(result, notes.columns, most);
  if (notes.is_verbose) text += LikeLines(result, notes.columns);
  const std::string gain = GainLine(result);
  if (!gain.empty()) text += Wrapped(gain, notes.columns);
  if (!result.plans().empty() && result.plans(0).has_run()) {
    text += Wrapped(RunWords(result.plans(0).run()), notes.columns);
  }
  text += ParetoTable(result, notes) + TrialTable(result, notes);
  text += LearntReport(result, notes) + WarningLines(result, notes);
  if (!result.plans().empty()) text += ExportLines(result.plans(0), notes);
  return text + (notes.brevity > 0 ? ShortDetails(result, notes) : Details(result, notes));
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

std::string WholeReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  std::string text;
  if (answer.has_result()) {
    text = ResultReport(answer, notes);
  } else if (answer.has_infeasible()) {
    text = InfeasibleReport(answer, notes);
  } else {
    text = StateReport(answer, notes);
  }
  const bool has_told = notes.brevity > 0 && answer.has_result();
  if (notes.recorded.empty() || has_told) return text;
  return text + "\n" + Wrapped(notes.recorded, notes.columns);
}

}  // namespace

std::string StudyReport(const v1::GetStudyResponse& answer, const ReportNotes& notes) {
  constexpr std::ptrdiff_t kScreenLines = 40;
  ReportNotes shorter = notes;
  for (;; ++shorter.brevity) {
    std::string text = WholeReport(answer, shorter);
    const bool fits = std::ranges::count(text, '\n') <= kScreenLines;
    if (fits || notes.is_verbose || shorter.brevity == kShortest) return text;
  }
}

std::string BreakdownReport(const v1::Estimate& estimate) {
  return BreakdownTable(estimate.breakdown_seconds(), SecondsText) + "\n" + MemoryTable(estimate);
}

}  // namespace meshwright
