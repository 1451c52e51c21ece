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
  // Of the locks that stand for this machine's devices; whoever names the same folder shares them.
  std::string slots_folder = {};  // absolute; exists
  int slot_count = 1;
  // That a job takes; absent: one for each of its processes.
  std::optional<int> slots_per_job = {};
  // That shows a job its devices, and what it calls that of each slot; empty: none is set.
  std::string visible_devices_variable = {};
  std::vector<std::string> device_names = {};  // slot_count of them
  // Of private, writable memory of the host, of each process (RLIMIT_DATA).
  std::optional<Bytes> memory_limit = {};
};

// The one that all studies of this user on this machine share.
std::string UsersSlotsFolder();
// Makes the folder if need be, for this user alone. FAILED_PRECONDITION: it cannot, or it is the
// user's own and somebody else could write to it.
absl::Status MakeSlotsFolder(const std::string& folder);

// Jobs as processes of this machine; a job waits until as many device slots are free as it takes.
// Each has a process group and a supervisor of its own (local_supervisor.sh), which lives on when
// the server goes, so that a later one finds the job by the files that it writes.
class LocalEngine final : public JobEngine {
 public:
  explicit LocalEngine(LocalEngineOptions options) : options_(std::move(options)) {}

  // A job whose attempt_id was submitted before is that one.
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override;
  absl::Status Cancel(const JobHandle& job) override;

 private:
  const LocalEngineOptions options_;
  std::vector<int> children_;  // process ids, to be reaped
  // When a job without a supervisor was first seen to have processes still.
  std::map<std::string, std::chrono::steady_clock::time_point> rest_since_;
};

}  // namespace meshwright
