#include "server/plugins/report_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

std::string Printed(const Json& json) {
  // What a foreign program writes need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json InfoOf(const ModelInfo& info) {
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

Json ManifestOf(const ModelManifest& manifest) {
  return {{"name", manifest.name},
          {"program", manifest.program},
          {"library", manifest.library},
          {"sha256", manifest.sha256}};
}

}  // namespace

std::string ListJson(const std::vector<ModelManifest>& manifests) {
  Json models = Json::array();
  for (const ModelManifest& manifest : manifests) models.push_back(ManifestOf(manifest));
  return Printed({{"models", models}});
}

std::string ShowJson(const ModelManifest& manifest, const ModelInfo& info,
                     const std::string& isolation) {
  return Printed(
      {{"manifest", ManifestOf(manifest)}, {"info", InfoOf(info)}, {"isolation", isolation}});
}

std::string CheckJson(const ConformanceReport& report) {
  Json checks = Json::array();
  for (const CheckResult& check : report.checks) {
    checks.push_back({{"name", check.name},
                      {"what", check.what},
                      {"outcome", std::string(Word(check.outcome))},
                      {"detail", check.detail}});
  }
  return Printed({{"passed", IsPassed(report)},
                  {"info", InfoOf(report.info)},
                  {"isolation", report.isolation},
                  {"checks", checks},
                  {"log_tail", report.log_tail}});
}

}  // namespace meshwright
