#include "cli/reports/explain_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/reports/comparison.h"
#include "cli/reports/learnt_lines.h"
#include "cli/reports/table.h"
#include "cli/reports/tune_report.h"
#include "cli/reports/words.h"

namespace meshwright {
namespace {

std::string Change(double now, double before) {
  return fmt::format("{:+.2f} %", 100 * (now / before - 1));
}

std::string SensitivityTable(const v1::ExplainPlanResponse& explanation) {
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
                      : "nothing fits",
                  is_same          ? "the same"
                  : row.has_best() ? PlanWords(row.best().plan())
                                   : "-"});
  }
  return table.Text("  ");
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

}  // namespace

std::string ExplainReport(const v1::ExplainPlanResponse& explanation) {
  const v1::RankedPlan& plan = explanation.plan();
  const bool is_best = plan.plan_digest() == explanation.best().plan_digest();
  std::string text = fmt::format("{}\n", PlanWords(plan.plan()));
  text += is_best ? fmt::format("is the best plan that was found: {} a step.\n",
                                SecondsText(plan.estimate().step_time_seconds()))
                  : fmt::format("takes {} a step; the best is {}\n",
                                SecondsText(plan.estimate().step_time_seconds()),
                                PlanWords(explanation.best().plan()));
  if (!is_best) {
    text +=
        "\n" + ComparisonReport(CompareEstimates(explanation.best().estimate(), plan.estimate()));
  }
  text += "\nTerms of its step time, and memory of its busiest device\n";
  text += BreakdownReport(plan.estimate());
  text += ModelText(explanation);
  if (explanation.sensitivities_size() > 0) {
    text += fmt::format("\nHow 10 % more or less of a resource would change the step{}\n",
                        explanation.binding_resource().empty()
                            ? ""
                            : "; the most is gained with more " + explanation.binding_resource());
    text += SensitivityTable(explanation);
  }
  if (explanation.near_misses_size() > 0) text += "\nPlans that lost, and why\n";
  for (const v1::NearMiss& miss : explanation.near_misses()) {
    text += fmt::format("  {}\n    {}\n", PlanWords(miss.plan().plan()), miss.reason());
  }
  if (explanation.has_calibration()) {
    text += "\nLearnt from measured runs\n" + LearntLines(explanation.calibration());
  }
  for (const std::string& warning : explanation.warnings()) {
    text += fmt::format("\nwarning: {}", warning);
  }
  return explanation.warnings_size() > 0 ? text + "\n" : text;
}

std::string SweepReport(const v1::SweepResponse& sweep, std::optional<double> device_hour_price) {
  Table table({{.title = "devices", .align = Align::kRight},
               {.title = "memory left", .align = Align::kRight},
               {.title = "step time", .align = Align::kRight},
               {.title = "tokens/s", .align = Align::kRight},
               {.title = device_hour_price ? "price of 1e6 tokens" : "device-s of 1e6 tokens",
                .align = Align::kRight},
               {.title = "front"},
               {.title = "plan"}});
  for (const v1::SweepPoint& point : sweep.points()) {
    const std::string devices = CountText(point.device_count());
    const std::string free = PercentText(point.free_memory_ratio());
    if (!point.has_best()) {
      table.AddRow({devices, free, "-", "-", "-", "", "nothing fits"});
      continue;
    }
    const v1::Estimate& estimate = point.best().estimate();
    const double tokens = estimate.tokens_per_second_per_device() * point.device_count();
    const double device_seconds = 1e6 * point.device_seconds_per_token();
    table.AddRow({devices, free, SecondsText(estimate.step_time_seconds()),
                  CountText(static_cast<std::int64_t>(tokens)),
                  device_hour_price
                      ? fmt::format("{:.4g}", device_seconds / 3600 * *device_hour_price)
                      : fmt::format("{:.4g}", device_seconds),
                  point.is_on_front() ? "*" : "", PlanWords(point.best().plan())});
  }
  const auto found = std::ranges::find_if(sweep.points(), &v1::SweepPoint::has_best);
  std::string text = found == sweep.points().end() ? "" : CostModelLine(found->best().estimate());
  text += table.Text("");
  for (const std::string& warning : sweep.warnings()) text += "warning: " + warning + "\n";
  return text;
}

}  // namespace meshwright
