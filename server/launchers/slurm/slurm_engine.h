#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/slurm/slurm_jobs.h"

namespace meshwright {

struct SlurmEngineOptions {
  // The site's own flags for sbatch: "--partition=gpu", "--account=x", "--gres=gpu:8".
  std::vector<std::string> sbatch_flags = {};
  // The time that one of Slurm's commands may take.
  Seconds command_limit = Seconds(30);
  // The time for which a pending job may show a reason that does not pass (IsHopeless): nodes that
  // are down for a moment show the same one.
  Seconds hopeless_limit = Seconds(30);
};

// Runs jobs through Slurm's commands sbatch, squeue, sacct and scancel. Slurm reuses job ids, so
// jobs are found by name: the attempt's id, which the comment holds too. It works without
// accounting: finished jobs that squeue has forgotten (MinJobAge) are then looked up in the file of
// completed jobs, and are unknown if a site keeps none.
class SlurmEngine final : public JobEngine {
 public:
  explicit SlurmEngine(SlurmEngineOptions options) : options_(std::move(options)) {}

  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  // Polling also cancels pending jobs that can never run; they end as kRefused.
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override;
  absl::Status Cancel(const JobHandle& job) override;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] absl::StatusOr<std::string> Ask(const std::vector<std::string>& command) const;
  // Returns the jobs that squeue no longer knows.
  [[nodiscard]] std::vector<SlurmJob> Finished(const std::string& names) const;
  absl::Status RefuseIfHopeless(const JobHandle& job, JobStatus& status);

  const SlurmEngineOptions options_;
  std::map<std::string, Clock::time_point> hopeless_since_;  // by attempt id
};

}  // namespace meshwright
