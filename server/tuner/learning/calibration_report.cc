#include "server/tuner/learning/calibration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "estimator/learning/calibration.h"
#include "search_space/digest/fnv.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/fingerprint.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

constexpr std::size_t kMaxEvidence = 20;

// Returns true if the run counts. A failed run counts without a figure.
bool Counts(const PastRun& run) {
  return run.outcome != Outcome::kOk || run.time_ratio.has_value() || run.memory_ratio.has_value();
}

// Returns a sort key that does not depend on a row's position; only identical rows share it. It
// refers to the run's texts, because thousands of keys are compared.
auto Rank(const PastRun& run) {
  return std::tuple_cat(
      std::tuple(-run.similarity),
      std::tie(run.plan_key, run.outcome, run.time_ratio, run.memory_ratio, run.model_name,
               run.cluster_name, run.measurement_id, run.history_index));
}

std::string IdOf(const Problem& problem, const Calibration& calibration,
                 const CalibrationReport& report) {
  std::string text = fmt::format("{} {} {}", report.job_fingerprint, SoftwareFingerprint(problem),
                                 report.model_version);
  const auto number = [](const std::optional<double>& value) {
    return value.has_value() ? fmt::format("{}", *value) : std::string("-");
  };
  text += fmt::format("\n{} {}", calibration.time_ratio, calibration.memory_ratio);
  for (const double weight : calibration.time.weights) text += fmt::format(" {}", weight);
  if (calibration.out_of_memory.has_value()) {
    text += fmt::format("\n{}", calibration.out_of_memory->reserved_memory.count);
  }
  for (const FailedRun& run : calibration.failed) text += "\n" + MakePlanKey(run.plan).text;
  for (const PastRun& run : report.evidence) {
    text += fmt::format("\n{} {} {} {} {} {}", run.measurement_id, run.plan_key, Word(run.outcome),
                        run.similarity, number(run.time_ratio), number(run.memory_ratio));
  }
  return "calibration-" + Fnv1a128Hex(text);
}

}  // namespace

std::optional<CalibrationReport> ReportCalibration(const Problem& problem,
                                                   const Calibration& calibration,
                                                   std::vector<PastRun> runs) {
  std::erase_if(runs, [](const PastRun& run) { return !Counts(run); });
  if (runs.empty()) return std::nullopt;
  std::ranges::sort(runs, {}, Rank);
  const auto run_count = static_cast<int>(runs.size());
  CalibrationReport report = {.time_ratio = calibration.time_ratio,
                              .memory_ratio = calibration.memory_ratio,
                              .run_count = run_count,
                              .model_version = MESHWRIGHT_VERSION,
                              .chip = problem.cluster.pools.front().chip.id,
                              .framework = problem.profile.name,
                              .framework_version = problem.workload.framework_version,
                              .job_fingerprint = JobFingerprint(problem),
                              .evidence = std::move(runs)};
  report.id = IdOf(problem, calibration, report);
  report.evidence.resize(std::min(report.evidence.size(), kMaxEvidence));
  return report;
}

}  // namespace meshwright
