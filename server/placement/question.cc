#include "server/placement/question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include "server/convert/convert.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

constexpr double kMaxWeight = 1e6;
constexpr double kMaxSolverSeconds = 86400;
constexpr PlacementObjective kObjectives[] = {
    PlacementObjective::kThroughput, PlacementObjective::kDeadline, PlacementObjective::kFair};
constexpr SolverKind kSolvers[] = {SolverKind::kExact, SolverKind::kCbc, SolverKind::kGlpk};
constexpr std::string_view kAuto = "auto";

// Finds the mistakes of all jobs and clusters. A question needs both, so each job is asked about
// the first cluster that reads without a mistake, and each cluster for the first such job.
class Check {
 public:
  Check(StatedPlacement stated, const Knowledge& knowledge)
      : stated_(std::move(stated)), knowledge_(knowledge), violations_(stated_.violations) {}

  absl::StatusOr<PlacementQuestion> Run() {
    PlacementQuestion question;
    for (std::size_t i = 0; i < stated_.jobs.size(); ++i) CheckJob(i);
    RETURN_IF_ERROR(CheckQuestions());
    RETURN_IF_ERROR(CheckClusters(question.clusters));
    CheckNamesOfJobs();
    CheckNamesOfClusters(question.clusters);
    CheckSettings(question);
    if (!violations_.empty()) return InvalidFields(violations_);
    question.jobs = std::move(stated_.jobs);
    return question;
  }

 private:
  void Refuse(std::string field, std::string description) {
    violations_.push_back({.field = std::move(field), .description = std::move(description)});
  }

  // The parts of a job that its question has not.
  void CheckJob(std::size_t index) {
    if (!stated_.jobs[index].is_object) return;
    const v1::PlacementJob& job = stated_.jobs[index].job;
    const auto require = [&](bool is_met, const char* field, std::string description) {
      if (!is_met) Refuse(fmt::format("jobs[{}].{}", index, field), std::move(description));
    };
    require(job.has_name() && !job.name().empty(), "name", "missing; must name the job");
    const double weight = job.weight();
    require(!job.has_weight() || (std::isfinite(weight) && weight > 0 && weight <= kMaxWeight),
            "weight", fmt::format("{}; must be > 0 and <= {:g}", weight, kMaxWeight));
    require(!job.has_min_devices() || job.min_devices() >= 1, "min_devices",
            fmt::format("{}; must be >= 1", job.min_devices()));
    const int least = std::max(1, job.min_devices());
    require(!job.has_max_devices() || job.max_devices() >= least, "max_devices",
            fmt::format("{}; must be >= {}", job.max_devices(), least));
    require(!job.has_step_count() || job.step_count() >= 1, "step_count",
            fmt::format("{}; must be >= 1", job.step_count()));
    require(!job.has_max_days() || (std::isfinite(job.max_days()) && job.max_days() > 0),
            "max_days", fmt::format("{}; must be > 0", job.max_days()));
    require(!job.has_max_days() || job.has_step_count(), "step_count",
            "missing; max_days needs it");
  }

  absl::Status CheckQuestions() {
    const auto sound = std::ranges::find_if(stated_.clusters, [](const StatedCluster& cluster) {
      return cluster.is_readable && cluster.violations.empty();
    });
    for (std::size_t i = 0; i < stated_.jobs.size(); ++i) {
      if (!stated_.jobs[i].is_object) continue;
      v1::TuneRequest question = stated_.jobs[i].question;
      if (sound != stated_.clusters.end()) *question.mutable_cluster() = sound->cluster;
      const auto study = FromWire(question, knowledge_, stated_.jobs[i].question_violations);
      RETURN_IF_ERROR(Take(study.status(), false, fmt::format("jobs[{}].", i)));
    }
    return absl::OkStatus();
  }

  // Adds the clusters without a mistake.
  absl::Status CheckClusters(std::vector<PlacementCluster>& clusters) {
    const auto sound = std::ranges::find_if(stated_.jobs, [](const StatedJob& job) {
      return job.is_object && job.question_violations.empty();
    });
    for (std::size_t k = 0; k < stated_.clusters.size(); ++k) {
      const StatedCluster& stated = stated_.clusters[k];
      if (!stated.is_readable) continue;
      v1::TuneRequest question;
      if (sound != stated_.jobs.end()) question = sound->question;
      *question.mutable_cluster() = stated.cluster;
      const auto study = FromWire(question, knowledge_, stated.violations);
      RETURN_IF_ERROR(Take(study.status(), true, fmt::format("clusters[{}]", k)));
      if (!study.ok()) continue;
      clusters.push_back({.stated = stated.cluster, .spec = study->problem.cluster});
    }
    return absl::OkStatus();
  }

  // Adds the mistakes of the cluster, or all others. Returns a status that lists none.
  absl::Status Take(const absl::Status& status, bool of_cluster, const std::string& prefix) {
    if (status.ok()) return status;
    const std::vector<FieldViolation> found = FieldViolations(status);
    if (found.empty()) return status;
    constexpr std::string_view kCluster = "cluster";
    for (const FieldViolation& one : found) {
      if (one.field.starts_with(kCluster) != of_cluster) continue;
      Refuse(prefix + (of_cluster ? one.field.substr(kCluster.size()) : one.field),
             one.description);
    }
    return absl::OkStatus();
  }

  void CheckNamesOfJobs() {
    std::set<std::string> names;
    for (std::size_t i = 0; i < stated_.jobs.size(); ++i) {
      const std::string& name = stated_.jobs[i].job.name();
      if (name.empty() || names.insert(name).second) continue;
      Refuse(fmt::format("jobs[{}].name", i),
             fmt::format("\"{}\"; another job has this name", name));
    }
  }

  void CheckNamesOfClusters(const std::vector<PlacementCluster>& clusters) {
    if (clusters.size() < stated_.clusters.size()) return;  // those with mistakes are not here
    std::set<std::string> names;
    for (std::size_t k = 0; k < clusters.size(); ++k) {
      if (names.insert(clusters[k].spec.name).second) continue;
      Refuse(fmt::format("clusters[{}].name", k),
             fmt::format("\"{}\"; another cluster has this name", clusters[k].spec.name));
    }
  }

  void CheckSettings(PlacementQuestion& question) {
    if (stated_.objective.has_value()) {
      const auto* const known = std::ranges::find_if(
          kObjectives, [&](PlacementObjective one) { return Word(one) == *stated_.objective; });
      if (known != std::end(kObjectives)) {
        question.objective = *known;
      } else {
        Refuse("objective", *stated_.objective + "; must be throughput, deadline or fair");
      }
    }
    const bool has_deadline = std::ranges::any_of(
        stated_.jobs, [](const StatedJob& job) { return job.job.has_max_days(); });
    if (question.objective == PlacementObjective::kDeadline && !stated_.jobs.empty() &&
        !has_deadline) {
      Refuse("objective", "deadline; needs a job with max_days");
    }
    if (stated_.solver.has_value() && *stated_.solver != kAuto) {
      const auto* const known = std::ranges::find_if(
          kSolvers, [&](SolverKind one) { return Word(one) == *stated_.solver; });
      if (known != std::end(kSolvers)) {
        question.solver = *known;
      } else {
        Refuse("solver", *stated_.solver + "; must be auto, exact, cbc or glpk");
      }
    }
    const double seconds = stated_.solver_seconds.value_or(question.solver_seconds.count());
    if (seconds >= 1 && seconds <= kMaxSolverSeconds) {
      question.solver_seconds = Seconds(seconds);
    } else {
      Refuse("solver_seconds", fmt::format("{}; must be 1 to {:.0f}", seconds, kMaxSolverSeconds));
    }
  }

  StatedPlacement stated_;
  const Knowledge& knowledge_;
  std::vector<FieldViolation> violations_;
};

// The mistake of a list with too few or too many entries, if it is one.
void CheckCount(const char* field, int count, int most, std::vector<FieldViolation>& violations) {
  if (count >= 1 && count <= most) return;
  violations.push_back(
      {.field = field,
       .description = fmt::format("{} entries; must be a list of 1 to {}", count, most)});
}

}  // namespace

StatedPlacement StatedIn(const v1::PlaceJobsRequest& request) {
  StatedPlacement stated;
  CheckCount("jobs", request.jobs_size(), kMaxPlacedJobs, stated.violations);
  CheckCount("clusters", request.clusters_size(), kMaxPlacedClusters, stated.violations);
  if (!stated.violations.empty()) return stated;
  for (const v1::PlacementJob& job : request.jobs()) {
    StatedJob& own = stated.jobs.emplace_back();
    own.job = job;
    if (job.has_model()) own.question.mutable_model()->Swap(own.job.mutable_model());
    if (job.has_workload()) own.question.mutable_workload()->Swap(own.job.mutable_workload());
    own.job.clear_model();
    own.job.clear_workload();
  }
  for (const v1::Cluster& cluster : request.clusters()) {
    stated.clusters.push_back({.cluster = cluster});
  }
  if (request.has_objective()) stated.objective = request.objective();
  if (request.has_solver()) stated.solver = request.solver();
  if (request.has_solver_seconds()) stated.solver_seconds = request.solver_seconds();
  return stated;
}

v1::PlaceJobsRequest RequestOf(const StatedPlacement& stated) {
  v1::PlaceJobsRequest request;
  for (const StatedJob& own : stated.jobs) {
    v1::PlacementJob& job = *request.add_jobs();
    job = own.job;
    if (own.question.has_model()) *job.mutable_model() = own.question.model();
    if (own.question.has_workload()) *job.mutable_workload() = own.question.workload();
  }
  for (const StatedCluster& own : stated.clusters) *request.add_clusters() = own.cluster;
  if (stated.objective.has_value()) request.set_objective(*stated.objective);
  if (stated.solver.has_value()) request.set_solver(*stated.solver);
  if (stated.solver_seconds.has_value()) request.set_solver_seconds(*stated.solver_seconds);
  return request;
}

absl::StatusOr<PlacementQuestion> CheckPlacement(StatedPlacement stated,
                                                 const Knowledge& knowledge) {
  return Check(std::move(stated), knowledge).Run();
}

}  // namespace meshwright
