#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

struct LocalEngineOptions {
  // The folder of the locks that stand for this machine's devices; engines with the same folder
  // share them.
  std::string slots_folder = {};  // absolute; must exist
  int slot_count = 1;
  // The slots that a job takes; absent: one for each of its processes.
  std::optional<int> slots_per_job = {};
  // The variable that shows a job its devices, and the name of the device of each slot in it;
  // empty: none is set.
  std::string visible_devices_variable = {};
  std::vector<std::string> device_names = {};  // slot_count of them
  // The limit of each process on private, writable host memory (RLIMIT_DATA).
  std::optional<Bytes> memory_limit = {};
};

// Returns the folder that all studies of this user on this machine share.
std::string UsersSlotsFolder();
// Makes the folder, with access for this user only, if it is missing. FAILED_PRECONDITION if it
// cannot, or if it is the user's own and somebody else could write to it.
absl::Status MakeSlotsFolder(const std::string& folder);

// Runs jobs as processes of this machine; a job waits until enough device slots are free. Each job
// has a process group and a supervisor (local_supervisor.sh) of its own. The supervisor outlives
// the server, and a later server finds the job by the files that it writes.
class LocalEngine final : public JobEngine {
 public:
  explicit LocalEngine(LocalEngineOptions options) : options_(std::move(options)) {}

  // Submitting an attempt_id again returns the first job.
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override;
  absl::Status Cancel(const JobHandle& job) override;

 private:
  const LocalEngineOptions options_;
  std::vector<int> children_;  // process ids to be reaped
  // When each job without a supervisor was first seen to still have processes.
  std::map<std::string, std::chrono::steady_clock::time_point> rest_since_;
};

}  // namespace meshwright
