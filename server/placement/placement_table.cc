#include "server/placement/placement_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr double kSecondsPerDay = 86400;

// A job on a candidate.
struct Pairing {
  std::size_t job = 0;
  Candidate candidate = {};
};

bool IsWithinLimits(const v1::PlacementJob& job, const Candidate& candidate) {
  return candidate.device_count >= std::max(1, job.min_devices()) &&
         (!job.has_max_devices() || candidate.device_count <= job.max_devices());
}

std::string DevicesText(const v1::PlacementJob& job) {
  if (!job.has_max_devices()) return fmt::format("at least {}", std::max(1, job.min_devices()));
  return fmt::format("{} to {}", std::max(1, job.min_devices()), job.max_devices());
}

TunedOption OptionOf(const v1::PlacementJob& job, Candidate candidate, TunedNodes tuned) {
  TunedOption option = {.candidate = std::move(candidate), .tuned = std::move(tuned)};
  if (job.has_step_count()) {
    const double seconds = option.tuned.plan->estimate().step_time_seconds();
    option.days = static_cast<double>(job.step_count()) * seconds / kSecondsPerDay;
  }
  return option;
}

class TableMaker {
 public:
  TableMaker(const std::vector<StatedJob>& jobs, const std::vector<PlacementCluster>& clusters,
             PlacementTuner& tuner)
      : jobs_(jobs), clusters_(clusters), tuner_(tuner) {
    table_.pools = PoolsOf(clusters);
    for (const StatedJob& job : jobs) table_.jobs.push_back({.job = job.job});
    largest_.resize(jobs.size());
  }

  absl::StatusOr<PlacementTable> Make() {
    std::vector<Pairing> pairings;
    std::vector<Candidate> candidates = SinglePools(clusters_);
    for (Candidate& pair : PairsOfPools(clusters_)) candidates.push_back(std::move(pair));
    for (std::size_t j = 0; j < jobs_.size(); ++j) AddAll(j, candidates, pairings);
    std::vector<Pairing> grown;
    RETURN_IF_ERROR(Tune(pairings, grown));
    std::vector<Pairing> none;
    RETURN_IF_ERROR(Tune(grown, none));
    for (std::size_t j = 0; j < jobs_.size(); ++j) SetReason(j);
    for (TunedJob& job : table_.jobs) KeepSure(job.options);
    return std::move(table_);
  }

 private:
  // The largest candidate without a plan, and the reason.
  struct Failure {
    int device_count = 0;
    std::string reason = {};
  };

  void AddAll(std::size_t job, const std::vector<Candidate>& candidates,
              std::vector<Pairing>& pairings) const {
    for (const Candidate& candidate : candidates) {
      if (IsWithinLimits(jobs_[job].job, candidate)) pairings.push_back({job, candidate});
    }
  }

  // Tunes the pairings and adds the options that they give; `grown` gets the pairs of pools that
  // count if a pool grows.
  absl::Status Tune(const std::vector<Pairing>& pairings, std::vector<Pairing>& grown) {
    std::vector<v1::TuneRequest> questions;
    for (const Pairing& pairing : pairings) {
      v1::TuneRequest& question = questions.emplace_back(jobs_[pairing.job].question);
      *question.mutable_cluster() = pairing.candidate.part;
    }
    ASSIGN_OR_RETURN(std::vector<TunedNodes> tuned, tuner_.Answer(questions));
    for (std::size_t i = 0; i < pairings.size(); ++i) {
      const auto& [job, candidate] = pairings[i];
      const bool is_pair = candidate.uses.size() > 1;
      const bool is_there = IsThere(table_.pools, candidate);
      if (is_there) ++table_.candidate_count;
      if (!tuned[i].plan.has_value()) {
        Failure& largest = largest_[job];
        if (is_there && !is_pair && candidate.device_count > largest.device_count) {
          largest = {.device_count = candidate.device_count, .reason = tuned[i].reason};
        }
        continue;
      }
      if (is_pair && !tuned[i].is_mix) continue;
      if (is_there) ++table_.fitting_count;
      if (is_pair && is_there) AddAll(job, GrownPairs(clusters_, candidate), grown);
      table_.jobs[job].options.push_back(OptionOf(jobs_[job].job, candidate, std::move(tuned[i])));
    }
    return absl::OkStatus();
  }

  // Drops the nodes on which a job may run out of memory if it has others.
  void KeepSure(std::vector<TunedOption>& options) const {
    const bool has_sure = std::ranges::any_of(options, [&](const TunedOption& option) {
      return option.tuned.is_sure && IsThere(table_.pools, option.candidate);
    });
    if (!has_sure) return;
    std::erase_if(options, [](const TunedOption& option) { return !option.tuned.is_sure; });
  }

  void SetReason(std::size_t j) {
    TunedJob& job = table_.jobs[j];
    const bool has_option = std::ranges::any_of(job.options, [&](const TunedOption& option) {
      return IsThere(table_.pools, option.candidate);
    });
    if (has_option) return;
    const Failure& largest = largest_[j];
    job.reason = largest.device_count == 0
                     ? fmt::format("no part of a pool has {} devices", DevicesText(job.job))
                     : fmt::format("on none of its candidates; on the largest, of {} devices, {}",
                                   largest.device_count, largest.reason);
  }

  const std::vector<StatedJob>& jobs_;
  const std::vector<PlacementCluster>& clusters_;
  PlacementTuner& tuner_;
  PlacementTable table_;
  std::vector<Failure> largest_;  // of each job
};

}  // namespace

absl::StatusOr<PlacementTable> TuneAll(const std::vector<StatedJob>& jobs,
                                       const std::vector<PlacementCluster>& clusters,
                                       PlacementTuner& tuner) {
  return TableMaker(jobs, clusters, tuner).Make();
}

AssignmentProblem ProblemOf(const PlacementTable& table, PlacementObjective objective) {
  AssignmentProblem problem = {.objective = objective};
  for (const PlacementPool& pool : table.pools) problem.node_counts.push_back(pool.node_count);
  for (const TunedJob& job : table.jobs) {
    PlacedJob& made = problem.jobs.emplace_back();
    if (job.job.has_weight()) made.weight = job.job.weight();
    double most = 0;
    for (const TunedOption& option : job.options) {
      if (!IsThere(table.pools, option.candidate)) continue;
      most = std::max(most, option.tuned.tokens_per_second);
    }
    // A job that no pool can hold today has no throughput to compare with: one node more counts as
    // all of it.
    for (const TunedOption& option : job.options) {
      const double ratio = most > 0 ? option.tuned.tokens_per_second / most : 1;
      made.options.push_back(
          {.uses = option.candidate.uses,
           .throughput_ratio = ratio,
           .meets_deadline = job.job.has_max_days() && option.days <= job.job.max_days()});
    }
  }
  return problem;
}

}  // namespace meshwright
