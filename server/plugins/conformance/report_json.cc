#include "server/plugins/conformance/report_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "server/plugins/accuracy.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/wire/model_client.h"

namespace meshwright {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string Printed(const OrderedJson& json) {
  // The output of a foreign program need not be UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

OrderedJson InfoOf(const ModelInfo& info) {
  return {{"name", info.name},
          {"vendor", info.vendor},
          {"version", info.version},
          {"description", info.description},
          {"protocol", fmt::format("{}.{}", info.protocol_major, info.protocol_minor)},
          {"chips", info.chips},
          {"precisions", info.precisions},
          {"operators", info.operators},
          {"is_deterministic", info.is_deterministic},
          {"max_batch_size", info.max_batch_size},
          {"max_concurrent_batches", info.max_concurrent_batches},
          {"candidates_per_second", info.candidates_per_second},
          {"has_explain", info.has_explain},
          {"has_lower_bound", info.has_lower_bound},
          {"has_calibration", info.has_calibration}};
}

OrderedJson ManifestOf(const ModelManifest& manifest) {
  return {{"name", manifest.name},
          {"program", manifest.program},
          {"library", manifest.library},
          {"sha256", manifest.sha256}};
}

OrderedJson AccuracyOf(const Accuracy& accuracy) {
  OrderedJson skipped = OrderedJson::array();
  for (const SkippedRun& run : accuracy.skipped) {
    skipped.push_back({{"row", run.row}, {"reason", run.why}});
  }
  return {{"plan_count", accuracy.plan_count},
          {"median_error_ratio", accuracy.median_error_ratio},
          {"mean_error_ratio", accuracy.mean_error_ratio},
          {"p90_error_ratio", accuracy.p90_error_ratio},
          {"question_count", accuracy.question_count},
          {"rank_correlation", accuracy.rank_correlation},
          {"first_count", accuracy.first_count},
          {"first_three_count", accuracy.first_three_count},
          {"skipped", skipped}};
}

OrderedJson CheckOf(const v1::CostModelCheck& check) {
  if (!check.error().empty()) return {{"error", check.error()}};
  return {{"time", check.time()},
          {"chip", check.chip()},
          {"passed_count", check.passed_count()},
          {"skipped_count", check.skipped_count()},
          {"failed_checks",
           std::vector<std::string>(check.failed_checks().begin(), check.failed_checks().end())},
          {"is_current", check.is_current()}};
}

}  // namespace

std::string ListJson(const v1::ListCostModelsResponse& list) {
  OrderedJson models = OrderedJson::array();
  for (const v1::CostModel& model : list.cost_models()) {
    OrderedJson listed = {{"name", model.name()},
                          {"kind", model.kind()},
                          {"file", model.file()},
                          {"sha256", model.sha256()},
                          {"state", model.state()}};
    if (model.has_check()) listed["check"] = CheckOf(model.check());
    models.push_back(std::move(listed));
  }
  return Printed({{"cost_models", models}});
}

std::string ShowJson(const ShownModel& shown) {
  return Printed({{"manifest", ManifestOf(shown.manifest)},
                  {"info", InfoOf(shown.info)},
                  {"calibrated_chips", shown.calibrated_chips},
                  {"isolation", shown.isolation}});
}

std::string TestsJson(const std::vector<CalibrationTest>& tests) {
  OrderedJson list = OrderedJson::array();
  for (const CalibrationTest& test : tests) {
    list.push_back({{"name", test.name}, {"what", test.what}, {"unit", test.unit}});
  }
  return Printed({{"tests", list}});
}

std::string CalibrationJson(const std::string& path, const StoredCalibration& calibration) {
  const FittedCalibration& fitted = calibration.fitted;
  OrderedJson json = {{"path", path},
                      {"model", calibration.model},
                      {"model_version", calibration.model_version},
                      {"checksum", calibration.checksum},
                      {"chip", calibration.chip},
                      {"calibration_version", CalibrationName(fitted.parameters)},
                      {"parameter_bytes", fitted.parameters.bytes.size()}};
  if (fitted.held_out_error_ratio) json["held_out_error_ratio"] = *fitted.held_out_error_ratio;
  return Printed(json);
}

std::string CheckJson(const ConformanceReport& report) {
  OrderedJson checks = OrderedJson::array();
  for (const CheckResult& check : report.checks) {
    checks.push_back({{"name", check.name},
                      {"what", check.what},
                      {"outcome", std::string(Word(check.outcome))},
                      {"detail", check.detail}});
  }
  OrderedJson json = {{"passed", IsPassed(report)},
                      {"info", InfoOf(report.info)},
                      {"isolation", report.isolation},
                      {"checks", checks},
                      {"log_tail", report.log_tail}};
  if (report.accuracy.has_value()) json["accuracy"] = AccuracyOf(*report.accuracy);
  return Printed(json);
}

}  // namespace meshwright
