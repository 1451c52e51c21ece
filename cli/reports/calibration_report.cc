#include "cli/reports/calibration_report.h"

#include <fmt/format.h>

#include "cli/reports/table.h"
#include "cli/reports/words.h"

namespace meshwright {
namespace {

constexpr char kMargin[] = "  ";

std::string ErrorText(const v1::FitError& error) {
  if (error.point_count() == 0) return "-";
  return fmt::format("{:.1f} / {:.1f} %", 100 * error.median_ratio(), 100 * error.p90_ratio());
}

std::string Operators(const v1::ChipCalibration& calibration) {
  Table table({{.title = "operator"},
               {.title = "points", .align = Align::kRight},
               {.title = "error before", .align = Align::kRight},
               {.title = "held out", .align = Align::kRight},
               {.title = "limit", .align = Align::kRight},
               {.title = "verdict"}});
  std::string advice;
  for (const v1::OperatorFit& fit : calibration.operators()) {
    const std::string limit =
        fmt::format("{:.0f} / {:.0f} %", 100 * fit.limit_ratio(), 100 * fit.p90_limit_ratio());
    table.AddRow({fit.detail().empty() ? fit.name() : fit.name() + ", " + fit.detail(),
                  fmt::format("{}", fit.point_count()), ErrorText(fit.before()),
                  ErrorText(fit.held_out()), fit.limit_ratio() > 0 ? limit : "-",
                  fit.is_needed() ? fit.verdict() : fit.verdict() + ", not needed"});
    if (!fit.advice().empty()) {
      advice += fmt::format("{}{}: {}\n", kMargin, fit.name(), fit.advice());
    }
  }
  return table.Text(kMargin) + advice;
}

// Shows how many times the expected seconds a step took.
std::string RanText(double measured_seconds, double expected_seconds) {
  return expected_seconds > 0 ? fmt::format("{:.2f} x", measured_seconds / expected_seconds) : "-";
}

std::string ExpectedText(double seconds) { return seconds > 0 ? SecondsText(seconds) : "-"; }

std::string Steps(const v1::ChipCalibration& calibration) {
  if (calibration.steps().empty()) return "";
  Table table({{.title = "whole step"},
               {.title = "measured", .align = Align::kRight},
               {.title = "expected before", .align = Align::kRight},
               {.title = "ran", .align = Align::kRight},
               {.title = "expected now", .align = Align::kRight},
               {.title = "ran", .align = Align::kRight},
               {.title = "80 %"}});
  std::string notes;
  for (const v1::StepCheck& step : calibration.steps()) {
    const std::string interval = fmt::format("{} .. {}", SecondsText(step.expected_low_seconds()),
                                             SecondsText(step.expected_high_seconds()));
    table.AddRow({step.plan(), SecondsText(step.measured_seconds()),
                  ExpectedText(step.expected_before_seconds()),
                  RanText(step.measured_seconds(), step.expected_before_seconds()),
                  ExpectedText(step.expected_seconds()),
                  RanText(step.measured_seconds(), step.expected_seconds()),
                  step.error().empty() ? interval : step.error()});
    if (!step.error_before().empty() && step.error_before() != step.error()) {
      notes += fmt::format("{}{}, before: {}\n", kMargin, step.plan(), step.error_before());
    }
  }
  return fmt::format(
      "\n{}{}{}ran: measured over expected time; 1.00 x is as expected. No figure was fitted to "
      "these steps.\n",
      table.Text(kMargin), notes, kMargin);
}

}  // namespace

std::string CalibrationReportText(const v1::ChipCalibration& calibration) {
  std::string text = fmt::format("calibration {} of {}, measured on {}: {}\n", calibration.name(),
                                 calibration.chip(), calibration.device_name(),
                                 calibration.verdict() == "ready" ? "ready" : "not ready, because");
  for (const std::string& reason : calibration.reasons()) {
    text += fmt::format("{}{}\n", kMargin, reason);
  }
  text += "\n";
  text += Operators(calibration) + Steps(calibration);
  Table changes(
      {{.title = "figure"}, {.title = "before"}, {.title = "now"}, {.title = "provenance"}});
  for (const v1::FigureChange& change : calibration.changes()) {
    changes.AddRow({change.name(), change.before().empty() ? "-" : change.before(), change.after(),
                    change.provenance()});
  }
  text += "\n" + changes.Text(kMargin);
  for (const std::string& warning : calibration.warnings()) {
    text += fmt::format("warning: {}\n", warning);
  }
  if (!calibration.stored_as().empty()) {
    text += fmt::format("\nwritten: {}\n", calibration.stored_as());
  }
  return text;
}

}  // namespace meshwright
