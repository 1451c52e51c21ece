#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// A job that every engine can run: the same command once on each of processes_per_node x node_count
// places, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment, and
// the attempt's id as MESHWRIGHT_ATTEMPT (under Slurm also Slurm's own variables). The first
// process that fails ends the others.
struct JobSpec {
  // The name of the job in the engine, by which it is found again: [a-z0-9-], never used twice.
  std::string attempt_id = {};
  std::string folder = {};  // absolute, the same on every node; holds <attempt_id>.log
  std::vector<std::string> command = {};
  std::map<std::string, std::string> environment = {};
  int node_count = 1;
  int processes_per_node = 1;
  Seconds time_limit = Seconds(600);  // the time that it may run
  std::vector<std::string> excluded_nodes = {};
};

inline constexpr char kAttemptVariable[] = "MESHWRIGHT_ATTEMPT";

struct JobHandle {
  std::string attempt_id = {};
  // the engine's id; empty if unknown: the engine looks for attempt_id
  std::string external_id = {};
  std::string folder = {};
};

enum class JobState {
  kUnknown,  // the engine knows no such job: it was never submitted, or it is long gone
  kPending,
  kRunning,
  kEnded,
};
template <>
std::span<const ChoiceWord<JobState>> Choices<JobState>();

// How a job ended, as far as its engine can tell.
enum class JobEndKind {
  kExited,
  kOutOfMemory,  // host memory; only the job itself knows about device memory
  kTimeLimit,
  kNodeFailure,
  kPreempted,
  kCancelled,  // cancelled by this program or from outside
  kRefused,    // it could never have run
};
template <>
std::span<const ChoiceWord<JobEndKind>> Choices<JobEndKind>();

struct JobEnd {
  JobEndKind kind = JobEndKind::kExited;
  std::optional<int> exit_code = {};  // 128 + the signal; absent if the engine does not tell
  bool operator==(const JobEnd&) const = default;
};

struct JobStatus {
  std::string external_id = {};
  JobState state = JobState::kUnknown;
  std::string reason = {};  // why it waits or how it ended, in the engine's words
  std::vector<std::string> nodes = {};
  std::optional<JobEnd> end = {};        // with kEnded
  std::optional<Seconds> run_time = {};  // with kEnded, if the engine tells
};

// A site's system for running jobs. We build no scheduler: an engine submits, polls and cancels.
// Calls return within seconds. An engine that does not answer is UNAVAILABLE; what becomes of a job
// is a status. A job outlives this object and its process. The job launcher calls it, from one
// thread at a time.
class JobEngine {
 public:
  JobEngine() = default;
  JobEngine(const JobEngine&) = delete;
  JobEngine& operator=(const JobEngine&) = delete;
  virtual ~JobEngine() = default;

  // Submits a job and returns the engine's id of it. FAILED_PRECONDITION if the engine refuses the
  // job.
  virtual absl::StatusOr<std::string> Submit(const JobSpec& spec) = 0;
  // Returns one status for each handle, in their order, with one query to the engine.
  virtual absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) = 0;
  // Asks the engine to end the job; Poll then tells when it has ended. A job that has ended stays
  // as it is.
  virtual absl::Status Cancel(const JobHandle& job) = 0;
};

}  // namespace meshwright
