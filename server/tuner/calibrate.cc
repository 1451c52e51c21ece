#include "server/tuner/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "search_space/status.h"

namespace meshwright {
namespace {

// Prior weight of "the model is right", in rows: the variance of a median of rows within a job over
// that of the jobs' own factors (docs/cost_model.md "Learning from runs").
constexpr double kPriorTimeRows = 3;
constexpr double kPriorMemoryRows = 0.5;
// A stated spread is never smaller than what repeats of one layout differ by.
constexpr double kLeastSigma = 0.03;

struct Residual {
  double log_ratio = 0;  // shrunk median
  double sigma = 0;
};

Residual Summarise(std::vector<double> logs, double prior_rows) {
  std::sort(logs.begin(), logs.end());
  const std::size_t n = logs.size();
  const double median = n % 2 == 1 ? logs[n / 2] : (logs[n / 2 - 1] + logs[n / 2]) / 2;
  double squares = 0;
  for (const double x : logs) squares += (x - median) * (x - median);
  const auto count = static_cast<double>(n);
  return {.log_ratio = median * count / (count + prior_rows),
          .sigma = std::max(kLeastSigma, std::sqrt(squares / count))};
}

bool IsComparable(const Problem& row, const Problem& problem) {
  return row.profile.name == problem.profile.name &&
         row.cluster.pools.front().chip.id == problem.cluster.pools.front().chip.id;
}

struct Evidence {
  std::vector<double> time;
  std::vector<double> memory;
  std::vector<Bytes> failed;  // modelled reserved memory of out-of-memory rows
  Bytes largest_run = {};
};

absl::Status Collect(const HistoryRow& row, std::size_t index, const Problem& problem,
                     const Knowledge& knowledge, Evidence& evidence) {
  const std::string path = fmt::format("history[{}]", index);
  const auto located = [&](const absl::Status& status) {
    std::vector<FieldViolation> violations = FieldViolations(status);
    for (FieldViolation& violation : violations) violation.field = path + "." + violation.field;
    if (!violations.empty()) return InvalidFields(violations);
    return WithReason(absl::Status(status.code(), path + ": " + std::string(status.message())),
                      Reason(status));
  };
  const absl::StatusOr<Problem> stated = ResolveProblem(row.question, knowledge);
  if (!stated.ok()) return located(stated.status());
  // What is learnt is the factor on today's model: the run is held against the facts that the
  // question states, or a run that they were refitted from would count twice.
  Question question = row.question;
  if (IsComparable(*stated, problem)) question.workload.framework_facts = problem.framework_facts;
  const absl::StatusOr<Problem> own = ResolveProblem(question, knowledge);
  if (!own.ok()) return located(own.status());
  if (!IsComparable(*own, problem)) return absl::OkStatus();
  const absl::StatusOr<ResolvedPlan> plan = ResolvePlan(row.plan, *own, "plan");
  if (!plan.ok()) return located(plan.status());
  AnalyticModel model(ViewOf(*own));
  const Estimate estimate = model.Full(plan->plan);
  if (row.outcome == Outcome::kOom) {
    evidence.failed.push_back(estimate.reserved_memory);
    return absl::OkStatus();
  }
  if (row.outcome != Outcome::kOk) return absl::OkStatus();
  evidence.largest_run = std::max(evidence.largest_run, estimate.reserved_memory);
  if (row.step_time.has_value() && row.step_time->count() > 0) {
    evidence.time.push_back(std::log(*row.step_time / estimate.step_time));
  }
  if (row.peak_memory.has_value() && row.peak_memory->count > 0) {
    evidence.memory.push_back(std::log(*row.peak_memory / estimate.peak_memory));
  }
  return absl::OkStatus();
}

}  // namespace

EstimatorProblem ViewOf(const Problem& problem) {
  return {.model = problem.model,
          .workload = problem.workload,
          .profile = problem.profile,
          .cluster = problem.cluster};
}

absl::StatusOr<Calibration> Calibrate(const std::vector<HistoryRow>& history,
                                      const Problem& problem, const Knowledge& knowledge) {
  Evidence evidence;
  for (std::size_t i = 0; i < history.size(); ++i) {
    RETURN_IF_ERROR(Collect(history[i], i, problem, knowledge, evidence));
  }
  Calibration calibration;
  if (!evidence.time.empty()) {
    const Residual residual = Summarise(evidence.time, kPriorTimeRows);
    calibration.time_ratio = std::exp(residual.log_ratio);
    calibration.time_log_sigma = residual.sigma;
    calibration.time_sample_count = static_cast<int>(evidence.time.size());
  }
  if (!evidence.memory.empty()) {
    const Residual residual = Summarise(evidence.memory, kPriorMemoryRows);
    calibration.memory_ratio = std::exp(residual.log_ratio);
    calibration.memory_log_sigma = residual.sigma;
    calibration.memory_sample_count = static_cast<int>(evidence.memory.size());
  }
  for (const Bytes& failed : evidence.failed) {
    if (failed <= evidence.largest_run) continue;
    if (!calibration.out_of_memory_at.has_value() || failed < *calibration.out_of_memory_at) {
      calibration.out_of_memory_at = failed;
    }
  }
  return calibration;
}

}  // namespace meshwright
