#include "cli/reports/calibration_report.h"

#include <fmt/format.h>

#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"

namespace meshwright {
namespace {

constexpr char kMargin[] = "  ";
constexpr char kRest[] = "    ";  // of a line that goes on

// The widest values of figures that stand in a column of a narrow table, for example the name of a
// curve and its first numbers.
constexpr std::size_t kMostOfValue = 20;

std::string ErrorText(const v1::FitError& error) {
  if (error.point_count() == 0) return "-";
  return fmt::format("{:.1f} / {:.1f} %", 100 * error.median_ratio(), 100 * error.p90_ratio());
}

std::string Operators(const v1::ChipCalibration& calibration, int columns) {
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
      advice += Wrapped(fmt::format("{}: {}", fit.name(), fit.advice()), columns, kMargin, kRest);
    }
  }
  return table.Text(kMargin, columns) + advice;
}

// Shows how many times the expected seconds a step took.
std::string RanText(double measured_seconds, double expected_seconds) {
  return expected_seconds > 0 ? fmt::format("{:.2f} x", measured_seconds / expected_seconds) : "-";
}

std::string ExpectedText(double seconds) { return seconds > 0 ? SecondsText(seconds) : "-"; }

std::string Steps(const v1::ChipCalibration& calibration, int columns) {
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
      notes += Wrapped(fmt::format("{}, before: {}", step.plan(), step.error_before()), columns,
                       kMargin, kRest);
    }
  }
  return "\n" + table.Text(kMargin, columns) + notes +
         Wrapped(
             "ran: measured over expected time; 1.00 x is as expected. No figure was fitted to "
             "these steps.",
             columns, kMargin, kMargin);
}

}  // namespace

std::string CalibrationReportText(const v1::ChipCalibration& calibration, int columns) {
  std::string text = fmt::format("calibration {} of {}, measured on {}: {}\n", calibration.name(),
                                 calibration.chip(), calibration.device_name(),
                                 calibration.verdict() == "ready" ? "ready" : "not ready, because");
  for (const std::string& reason : calibration.reasons()) {
    text += Wrapped(reason, columns, kMargin, kRest);
  }
  text += "\n";
  text += Operators(calibration, columns) + Steps(calibration, columns);
  Table changes({{.title = "figure"},
                 {.title = "before", .most = kMostOfValue},
                 {.title = "now", .most = kMostOfValue},
                 {.title = "provenance"}});
  for (const v1::FigureChange& change : calibration.changes()) {
    changes.AddRow({change.name(), change.before().empty() ? "-" : change.before(), change.after(),
                    change.provenance()});
  }
  text += "\n" + changes.Text(kMargin, columns);
  for (const std::string& warning : calibration.warnings()) {
    text += Wrapped(warning, columns, "warning: ", kMargin);
  }
  if (!calibration.stored_as().empty()) {
    text += fmt::format("\nwritten: {}\n", calibration.stored_as());
  }
  return text;
}

}  // namespace meshwright
