#include "cli/reports/explain_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/reports/comparison.h"
#include "cli/reports/kinds_table.h"
#include "cli/reports/learnt_lines.h"
#include "cli/reports/table.h"
#include "cli/reports/tune_report.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "server/convert/question_answers.h"

namespace meshwright {
namespace {

std::string Change(double now, double before) {
  return fmt::format("{:+.2f} %", 100 * (now / before - 1));
}

std::string SensitivityTable(const v1::ExplainPlanResponse& explanation, int columns) {
  Table table({{.title = "resource"},
               {.title = "change", .align = Align::kRight},
               {.title = "this plan's step", .align = Align::kRight},
               {.title = "best step", .align = Align::kRight},
               {.title = "best plan there"}});
  const v1::Estimate& plan = explanation.plan().estimate();
  const v1::Estimate& best = explanation.best().estimate();
  for (const v1::Sensitivity& row : explanation.sensitivities()) {
    const bool is_same =
        row.has_best() && row.best().plan_digest() == explanation.best().plan_digest();
    table.AddRow({row.resource(), fmt::format("{:+.0f} %", 100 * row.change_ratio()),
                  row.plan_fits() ? Change(row.plan_step_time_seconds(), plan.step_time_seconds())
                                  : "does not fit",
                  row.has_best()
                      ? Change(row.best().estimate().step_time_seconds(), best.step_time_seconds())
                      : "none is sure to fit",
                  is_same          ? "the same best plan"
                  : row.has_best() ? FullWords(row.best())
                                   : "-"});
  }
  return table.Text(kIndent, columns);
}

// Says which vendor's model made the times, if one did, and what it says of them.
std::string ModelText(const v1::ExplainPlanResponse& explanation) {
  const v1::Estimate& plan = explanation.plan().estimate();
  std::string text = CostModelLine(plan);
  if (!text.empty()) text = "\n" + text;
  if (explanation.cost_model_lines_size() == 0) return text;
  text += fmt::format("\nCost model {} explains it\n", plan.cost_model().name());
  for (const std::string& line : explanation.cost_model_lines()) text += "  " + line + "\n";
  return text;
}

// Says how the explained plan compares with the one to launch and with the fastest.
std::string Verdict(const v1::ExplainPlanResponse& explanation) {
  const v1::RankedPlan& plan = explanation.plan();
  const auto with = [](const v1::Estimate& estimate) {
    return fmt::format("{} a step, and fits with a probability of {}",
                       SecondsText(estimate.step_time_seconds()),
                       ProbabilityText(estimate.fit_probability_ratio()));
  };
  std::string text = fmt::format("It takes {}.", with(plan.estimate()));
  const bool is_launched = IsSame(plan, explanation.launch());
  if (is_launched) {
    text +=
        explanation.recommendation() == "keep_yours" ? " Keep it. " : " It is the one to launch. ";
    text += explanation.reason();
  } else {
    text += fmt::format(" The plan to launch is {}. It takes {}.", FullWords(explanation.launch()),
                        with(explanation.launch().estimate()));
  }
  const v1::RankedPlan& fastest = explanation.best();
  if (IsSame(fastest, plan) || IsSame(fastest, explanation.launch())) return text;
  return text + fmt::format(" The fastest plan that is as sure to fit is {}. It takes {}.",
                            FullWords(fastest), with(fastest.estimate()));
}

}  // namespace

std::string ExplainReport(const v1::ExplainPlanResponse& explanation, int columns) {
  const v1::RankedPlan& plan = explanation.plan();
  std::string text = Wrapped(FullWords(plan), columns) + Wrapped(Verdict(explanation), columns);
  if (!IsSame(plan, explanation.best())) {
    text += "\nThe fastest plan (first) and this plan (second)\n";
    text +=
        ComparisonReport(CompareEstimates(explanation.best().estimate(), plan.estimate()), columns);
  }
  text += "\nTerms of its step time, and memory of its busiest device\n";
  text += BreakdownReport(plan.estimate());
  text += ModelText(explanation);
  if (explanation.sensitivities_size() > 0) {
    std::string heading = "How 10 % more or less of a resource would change the step";
    if (!explanation.binding_resource().empty()) {
      heading += "; the most is gained with more " + explanation.binding_resource();
    }
    text += "\n" + Wrapped(heading, columns) + SensitivityTable(explanation, columns);
  }
  if (explanation.near_misses_size() > 0) text += "\nPlans that lost, and why\n";
  for (const v1::NearMiss& miss : explanation.near_misses()) {
    const std::string inner = std::string(kIndent) + kIndent;
    text += Wrapped(FullWords(miss.plan()), columns, kIndent, inner);
    text += Wrapped(miss.reason(), columns, inner, inner);
  }
  if (explanation.has_calibration()) {
    text += "\nLearnt from measured runs\n" + LearntLines(explanation.calibration(), columns);
  }
  if (explanation.warnings_size() > 0) text += "\n";
  for (const std::string& warning : explanation.warnings()) {
    text += Wrapped("warning: " + warning, columns, "", kIndent);
  }
  return text;
}

}  // namespace meshwright
