#include "cli/model_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/table.h"

namespace meshwright {
namespace {

constexpr char kIndent[] = "  ";

std::string FileOf(const ModelManifest& manifest) {
  return manifest.program.empty() ? manifest.library : manifest.program;
}

std::string Joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace

std::string ModelTable(const std::vector<ModelManifest>& manifests) {
  Table table({{.title = "cost model"}, {.title = "kind"}, {.title = "file"}});
  for (const ModelManifest& manifest : manifests) {
    table.AddRow(
        {manifest.name, manifest.program.empty() ? "library" : "program", FileOf(manifest)});
  }
  return table.Text("");
}

std::string ModelReport(const ModelManifest& manifest, const ModelInfo& info,
                        const std::string& isolation) {
  Table table({{}, {}});
  table.AddRow({"file", FileOf(manifest)});
  table.AddRow({"SHA-256", manifest.sha256});
  table.AddRow({"says it is", fmt::format("{} {} of {}", info.name, info.version, info.vendor)});
  table.AddRow({"description", info.description});
  table.AddRow({"protocol", fmt::format("{}.{}", info.protocol_major, info.protocol_minor)});
  table.AddRow({"chips", Joined(info.chips)});
  table.AddRow({"precisions", Joined(info.precisions)});
  table.AddRow({"operators", Joined(info.operators)});
  table.AddRow({"deterministic", info.is_deterministic ? "yes" : "no"});
  table.AddRow({"isolation", isolation});
  return manifest.name + "\n" + table.Text(kIndent);
}

std::string CheckReport(const ConformanceReport& report) {
  Table table({{.title = "check"}, {.title = "outcome"}, {.title = "what must hold"}});
  for (const CheckResult& check : report.checks) {
    table.AddRow({check.name, std::string(Word(check.outcome)), check.what});
  }
  std::string text = table.Text("");
  for (const CheckResult& check : report.checks) {
    if (check.detail.empty()) continue;
    text += fmt::format("\n{}: {}: {}", check.name, Word(check.outcome), check.detail);
  }
  const auto failed =
      std::ranges::count(report.checks, CheckOutcome::kFailed, &CheckResult::outcome);
  text += fmt::format("\n\nisolation: {}\n", report.isolation);
  if (failed > 0 && !report.log_tail.empty()) {
    text += fmt::format("the model wrote:\n{}\n", report.log_tail);
  }
  return text + (failed == 0
                     ? "passed: a study may use this model\n"
                     : fmt::format("failed: {} of {} checks\n", failed, report.checks.size()));
}

}  // namespace meshwright
