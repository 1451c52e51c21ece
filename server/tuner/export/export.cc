#include "server/tuner/export/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "search_space/base/status.h"
#include "server/tuner/export/megatron_core.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

constexpr char kMegatronCore[] = "megatron-core";

struct Exporter {
  std::string_view framework;
  absl::StatusOr<std::string> (*function)(const Problem&, const ParallelPlan&);
};

// Each framework has a file and a row here.
constexpr std::array kExporters = {Exporter{kMegatronCore, ExportMegatronCore}};

const Exporter* FindExporter(std::string_view framework) {
  const auto found = std::ranges::find(kExporters, framework, &Exporter::framework);
  return found == kExporters.end() ? nullptr : &*found;
}

void AddExport(const Exporter& exporter, const Problem& problem, RankedPlan& ranked,
               std::vector<std::string>& warnings) {
  auto text = exporter.function(problem, ranked.plan);
  if (text.ok()) {
    ranked.exports.insert_or_assign(std::string(exporter.framework), *std::move(text));
    return;
  }
  std::string warning = fmt::format("no {} export of some plans: {}", exporter.framework,
                                    std::string(text.status().message()));
  if (std::ranges::find(warnings, warning) == warnings.end()) {
    warnings.push_back(std::move(warning));
  }
}

}  // namespace

absl::StatusOr<std::string> ExportPlan(std::string_view framework, const Problem& problem,
                                       const ParallelPlan& plan) {
  const Exporter* exporter = FindExporter(framework);
  if (exporter == nullptr) {
    return WithReason(
        absl::NotFoundError(fmt::format("framework = {}; known exports: {}", framework,
                                        fmt::join(ExportFrameworks(), ", "))),
        "UNKNOWN_EXPORT_FRAMEWORK");
  }
  return exporter->function(problem, plan);
}

std::vector<std::string> ExportFrameworks() {
  std::vector<std::string> names;
  names.reserve(kExporters.size());
  for (const Exporter& exporter : kExporters) names.emplace_back(exporter.framework);
  return names;
}

void AddExports(const Problem& problem, StudyResult& result) {
  std::vector<const Exporter*> wanted = {FindExporter(kMegatronCore)};
  const Exporter* own = FindExporter(problem.workload.framework_name);
  if (own != nullptr && own != wanted.front()) wanted.push_back(own);
  for (const Exporter* exporter : wanted) {
    for (RankedPlan& ranked : result.plans) {
      AddExport(*exporter, problem, ranked, result.warnings);
    }
    for (ParetoPoint& point : result.pareto_front) {
      AddExport(*exporter, problem, point.plan, result.warnings);
    }
    if (result.model_optimum.has_value()) {
      AddExport(*exporter, problem, *result.model_optimum, result.warnings);
    }
    if (result.baseline.has_value()) {
      AddExport(*exporter, problem, *result.baseline, result.warnings);
    }
  }
}

}  // namespace meshwright
