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

// A job as every engine can run it: the same command once on each of processes_per_node x
// node_count places, with RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its
// environment, and the attempt's id as MESHWRIGHT_ATTEMPT (under Slurm also its own variables). The
// first process that fails ends the others.
struct JobSpec {
  // The name of the job with the engine, by which it is found again: [a-z0-9-], unique for ever.
  std::string attempt_id = {};
  std::string folder = {};  // absolute, the same on every node; holds <attempt_id>.log
  std::vector<std::string> command = {};
  std::map<std::string, std::string> environment = {};
  int node_count = 1;
  int processes_per_node = 1;
  Seconds time_limit = Seconds(600);  // that it may run
  std::vector<std::string> excluded_nodes = {};
};

inline constexpr char kAttemptVariable[] = "MESHWRIGHT_ATTEMPT";

struct JobHandle {
  std::string attempt_id = {};
  std::string external_id = {};  // the engine's; empty: not known, look for attempt_id
  std::string folder = {};
};

enum class JobState {
  kUnknown,  // the engine knows no such job: it never came, or it is long gone
  kPending,
  kRunning,
  kEnded,
};
template <>
std::span<const ChoiceWord<JobState>> Choices<JobState>();

// How a job ended, as far as its engine can tell.
enum class JobEndKind {
  kExited,
  kOutOfMemory,  // of the host: of the device only the job itself knows
  kTimeLimit,
  kNodeFailure,
  kPreempted,
  kCancelled,  // by us or by somebody else
  kRefused,    // it could never have run
};
template <>
std::span<const ChoiceWord<JobEndKind>> Choices<JobEndKind>();

struct JobEnd {
  JobEndKind kind = JobEndKind::kExited;
  std::optional<int> exit_code = {};  // 128 + the signal; absent: the engine does not tell
  bool operator==(const JobEnd&) const = default;
};

struct JobStatus {
  std::string external_id = {};
  JobState state = JobState::kUnknown;
  std::string reason = {};  // the engine's own words: why it waits, how it ended
  std::vector<std::string> nodes = {};
  std::optional<JobEnd> end = {};        // with kEnded
  std::optional<Seconds> run_time = {};  // with kEnded, where the engine tells
};

// What a site runs jobs with. We build no scheduler: an engine submits, looks and cancels. Calls
// return within seconds; an engine that cannot be asked just then is UNAVAILABLE, and whatever
// becomes of a job is a status. A job outlives this object and its process. Called by the job
// launcher from one thread at a time.
class JobEngine {
 public:
  JobEngine() = default;
  JobEngine(const JobEngine&) = delete;
  JobEngine& operator=(const JobEngine&) = delete;
  virtual ~JobEngine() = default;

  // The engine's id of the job. FAILED_PRECONDITION when it refuses the job.
  virtual absl::StatusOr<std::string> Submit(const JobSpec& spec) = 0;
  // One status for each handle, in their order, with one question to the engine.
  virtual absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) = 0;
  // Asks for its end, which Poll then tells; of a job that has ended nothing changes.
  virtual absl::Status Cancel(const JobHandle& job) = 0;
};

}  // namespace meshwright
