#include "cli/reports/model_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/reports/table.h"
#include "cli/reports/wrap.h"
#include "server/plugins/accuracy.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/manifest.h"
#include "server/plugins/wire/model_client.h"

namespace meshwright {
namespace {

std::string FileOf(const ModelManifest& manifest) {
  return manifest.program.empty() ? manifest.library : manifest.program;
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string AccuracyText(const Accuracy& accuracy) {
  std::string text = fmt::format(
      "\ncompared with measured runs: {} plans, median error {:.1f} %, mean {:.1f} %, p90 {:.1f} "
      "%\n",
      accuracy.plan_count, 100 * accuracy.median_error_ratio, 100 * accuracy.mean_error_ratio,
      100 * accuracy.p90_error_ratio);
  if (accuracy.question_count > 0) {
    text += fmt::format(
        "of {} questions with at least 3 plans: rank correlation {:.2f}, the measured best is its "
        "first choice in {}, among its first 3 in {}\n",
        accuracy.question_count, accuracy.rank_correlation, accuracy.first_count,
        accuracy.first_three_count);
  }
  for (const SkippedRun& run : accuracy.skipped) {
    text += fmt::format("row {} not compared: {}\n", run.row, run.why);
  }
  return text + "\n";
}

// Returns the result of a model's last check.
std::string CheckWords(const v1::CostModel& model) {
  if (!model.has_check()) return "never";
  const v1::CostModelCheck& check = model.check();
  if (!check.error().empty()) return check.error();
  if (!check.is_current()) return "before the file changed";
  constexpr std::size_t kDateLength = std::string_view("2026-11-29").size();
  std::string words =
      fmt::format("{}: {} passed", check.time().substr(0, kDateLength), check.passed_count());
  if (check.failed_checks_size() > 0)
    words += fmt::format(", {} failed", check.failed_checks_size());
  if (check.skipped_count() > 0) words += fmt::format(", {} skipped", check.skipped_count());
  return words;
}

}  // namespace

std::string ModelTable(const v1::ListCostModelsResponse& list) {
  Table table({{.title = "cost model"},
               {.title = "kind"},
               {.title = "file"},
               {.title = "state"},
               {.title = "checked"},
               {.title = "SHA-256"}});
  for (const v1::CostModel& model : list.cost_models()) {
    table.AddRow({model.name(), model.kind(), model.file(), model.state(), CheckWords(model),
                  model.sha256()});
  }
  return table.Text("");
}

std::string ModelReport(const ShownModel& shown) {
  const ModelManifest& manifest = shown.manifest;
  const ModelInfo& info = shown.info;
  const auto yes_no = [](bool is_so) { return is_so ? "yes" : "no"; };
  Table table({{}, {}});
  table.AddRow({"file", FileOf(manifest)});
  table.AddRow({"SHA-256", manifest.sha256});
  table.AddRow({"name", fmt::format("{} {} of {}", info.name, info.version, info.vendor)});
  table.AddRow({"description", info.description});
  table.AddRow({"protocol", fmt::format("{}.{}", info.protocol_major, info.protocol_minor)});
  table.AddRow({"chips", Joined(info.chips)});
  table.AddRow({"precisions", Joined(info.precisions)});
  table.AddRow({"operators", Joined(info.operators)});
  table.AddRow({"deterministic", yes_no(info.is_deterministic)});
  table.AddRow({"batch limit", info.max_batch_size > 0
                                   ? fmt::format("{} plans", info.max_batch_size)
                                   : "none stated"});
  table.AddRow({"lower bounds", yes_no(info.has_lower_bound)});
  table.AddRow({"explains", yes_no(info.has_explain)});
  table.AddRow({"can be calibrated", yes_no(info.has_calibration)});
  table.AddRow({"calibrated for",
                shown.calibrated_chips.empty() ? "no chip" : Joined(shown.calibrated_chips)});
  table.AddRow({"isolation", shown.isolation});
  return manifest.name + "\n" + table.Text(kIndent);
}

std::string TestTable(const std::vector<CalibrationTest>& tests) {
  Table table({{.title = "test"}, {.title = "unit"}, {.title = "measurement"}});
  for (const CalibrationTest& test : tests) table.AddRow({test.name, test.unit, test.what});
  return table.Text("");
}

std::string ModelCalibrationReport(const std::string& path, const StoredCalibration& calibration) {
  const FittedCalibration& fitted = calibration.fitted;
  Table table({{}, {}});
  table.AddRow({"file", path});
  table.AddRow({"of", fmt::format("{} {}", calibration.model, calibration.model_version)});
  table.AddRow({"chip", calibration.chip});
  table.AddRow({"version", CalibrationName(fitted.parameters)});
  table.AddRow({"parameters", fmt::format("{} bytes", fitted.parameters.bytes.size())});
  table.AddRow({"held-out error", fitted.held_out_error_ratio
                                      ? fmt::format("{:.1f} %", 100 * *fitted.held_out_error_ratio)
                                      : "not stated by the model"});
  return "calibrated\n" + table.Text(kIndent);
}

std::string CheckReport(const ConformanceReport& report, int columns) {
  Table table({{.title = "check"}, {.title = "outcome"}, {.title = "requirement"}});
  for (const CheckResult& check : report.checks) {
    table.AddRow({check.name, std::string(Word(check.outcome)), check.what});
  }
  std::string text = table.Text("", columns);
  text += "\n";
  for (const CheckResult& check : report.checks) {
    if (check.detail.empty()) continue;
    text += Wrapped(fmt::format("{}: {}: {}", check.name, Word(check.outcome), check.detail),
                    columns, "", kIndent);
  }
  const auto failed =
      std::ranges::count(report.checks, CheckOutcome::kFailed, &CheckResult::outcome);
  text += "\n";
  if (!report.isolation.empty()) {
    text += Wrapped(report.isolation, columns, "isolation: ", kIndent);
  }
  if (failed > 0 && !report.log_tail.empty()) {
    text += fmt::format("the model wrote:\n{}\n", report.log_tail);
  }
  if (report.accuracy.has_value()) text += AccuracyText(*report.accuracy);
  return text + (failed == 0
                     ? "passed: a study may use this model\n"
                     : fmt::format("failed: {} of {} checks\n", failed, report.checks.size()));
}

}  // namespace meshwright
