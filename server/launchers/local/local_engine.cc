#include "server/launchers/local/local_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/launchers/local/local_supervisor.h"
#include "server/process/descriptor.h"
#include "server/process/follow_output.h"
#include "server/process/numbers_in.h"
#include "server/process/owner.h"
#include "server/process/spawn.h"

namespace meshwright {
namespace {

constexpr std::chrono::seconds kStartLimit(5);
constexpr int kReadyDescriptor = 3;             // as local_supervisor.sh has it
constexpr std::chrono::seconds kRestLimit(60);  // time to wait for killed processes to go

std::string PrefixOf(const std::string& folder, const std::string& attempt_id) {
  return folder + "/" + attempt_id;
}

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// Returns "<pid>:<start time>" in the form of OwnOwner.
std::optional<std::string> SupervisorOf(const std::string& prefix) {
  std::optional<std::string> line = ReadLine(prefix + ".pid");
  if (!line.has_value()) return std::nullopt;
  std::replace(line->begin(), line->end(), ' ', ':');
  return line;
}

int PidOf(const std::string& supervisor) {
  int pid = 0;
  std::from_chars(supervisor.data(), supervisor.data() + supervisor.size(), pid);
  return pid;
}

// Returns the time from taking its slots to its end by the supervisor's clock; nullopt if it never
// began.
std::optional<Seconds> SupervisedTime(const std::string& prefix, const std::string& exit_line) {
  const std::optional<std::string> running = ReadLine(prefix + ".running");
  if (!running.has_value()) return std::nullopt;
  std::istringstream words(*running + " " + exit_line);
  std::int64_t start_ms = 0;
  std::int64_t end_ms = 0;
  int code = 0;
  std::string cause;
  words >> start_ms >> code >> cause >> end_ms;
  // A clock may have been set back.
  if (!words || end_ms < start_ms) return std::nullopt;
  return Seconds(1e-3 * static_cast<double>(end_ms - start_ms));
}

JobEnd ParseEnd(const std::string& line) {
  std::istringstream words(line);
  int code = 0;
  std::string cause;
  words >> code >> cause;
  if (cause == "cancelled") return {.kind = JobEndKind::kCancelled};
  if (cause == "time_limit") return {.kind = JobEndKind::kTimeLimit};
  return {.kind = JobEndKind::kExited, .exit_code = code};
}

std::string ReasonOf(const JobEnd& end) {
  if (!end.exit_code.has_value()) return std::string(Word(end.kind));
  return fmt::format("exit code {}", *end.exit_code);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return RestOf(file);
}

// Kills the processes of a job whose supervisor is gone; returns true if there were any, because a
// killed process takes a moment to go. Process ids are used again and a process may leave its
// session, so a process belongs to the job if its environment holds the attempt's id. It is killed
// through a descriptor, so that it is the process that was looked at.
bool KillRest(const std::string& attempt_id) {
  bool has_found = false;
  const std::string mark = fmt::format("{}={}", kAttemptVariable, attempt_id) + '\0';
  for (const int pid : NumbersIn("/proc")) {
    if (pid <= 1) continue;
    const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (process < 0) continue;
    if (('\0' + ReadFile(fmt::format("/proc/{}/environ", pid))).find('\0' + mark) !=
        std::string::npos) {
      syscall(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
      has_found = true;
    }
    close(process);
  }
  return has_found;
}

using Times = std::map<std::string, std::chrono::steady_clock::time_point>;

// Returns true while processes of the job are waited for. Those that do not even go when they are
// killed, as in a driver, are not waited for without end. `since` notes when each job was first
// seen to have some.
bool WaitsForRest(const std::string& prefix, Times& since) {
  if (!KillRest(prefix.substr(prefix.rfind('/') + 1))) {
    since.erase(prefix);
    return false;
  }
  const auto now = std::chrono::steady_clock::now();
  return now - since.emplace(prefix, now).first->second < kRestLimit;
}

JobStatus StatusOf(const std::string& prefix, Times& rest_since) {
  const std::optional<std::string> supervisor = SupervisorOf(prefix);
  if (!supervisor.has_value()) return {};
  JobStatus status = {.external_id = *supervisor, .nodes = {"localhost"}};
  const bool is_alive = IsAlive(*supervisor);
  // The order matters: the supervisor writes the line and then ends.
  const auto exit = ReadLine(prefix + ".exit");
  const bool is_ending = is_alive ? exit.has_value() : WaitsForRest(prefix, rest_since);
  if (is_ending) {
    status.state = JobState::kRunning;
    status.reason = "its processes are being ended";
  } else if (exit.has_value()) {
    status.state = JobState::kEnded;
    status.end = ParseEnd(*exit);
    status.reason = ReasonOf(*status.end);
    status.run_time = SupervisedTime(prefix, *exit);
  } else if (!is_alive) {
    status.state = JobState::kEnded;
    status.end = {.kind = JobEndKind::kExited, .exit_code = 128 + SIGKILL};
    status.reason = "its supervisor was killed";
  } else if (access((prefix + ".running").c_str(), F_OK) == 0) {
    status.state = JobState::kRunning;
  } else {
    status.state = JobState::kPending;
    status.reason = "waits for free device slots";
  }
  return status;
}

absl::Status Check(const JobSpec& spec, const LocalEngineOptions& options) {
  const int slot_count = options.slot_count;
  if (access(options.slots_folder.c_str(), W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(fmt::format("the folder of device slots, {}: {}",
                                                     options.slots_folder, std::strerror(errno)));
  }
  if (spec.node_count != 1) {
    return absl::FailedPreconditionError(
        fmt::format("node_count = {}; must be 1 on this machine", spec.node_count));
  }
  if (spec.processes_per_node <= slot_count) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("processes_per_node = {}; must be at most {}, the device slots of this machine",
                  spec.processes_per_node, slot_count));
}

// Returns the environment of this process with the job's own variables.
std::vector<std::string> EnvironmentOf(const JobSpec& spec) {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string_view text = *line;
    const std::string name(text.substr(0, text.find('=')));
    if (!spec.environment.contains(name) && name != kAttemptVariable) lines.emplace_back(text);
  }
  for (const auto& [name, value] : spec.environment) {
    lines.push_back(fmt::format("{}={}", name, value));
  }
  lines.push_back(fmt::format("{}={}", kAttemptVariable, spec.attempt_id));
  return lines;
}

std::vector<std::string> ArgumentsOf(const JobSpec& spec, const LocalEngineOptions& options) {
  std::vector<std::string> arguments = {
      "bash",
      "-c",
      std::string(local_supervisor().front().text),
      "bash",
      PrefixOf(spec.folder, spec.attempt_id),
      std::to_string(spec.processes_per_node),
      fmt::format("{}", std::ceil(spec.time_limit.count() * 10) / 10),
      options.slots_folder,
      std::to_string(options.slot_count),
      std::to_string(std::max(spec.processes_per_node, options.slots_per_job.value_or(1))),
      options.memory_limit.has_value() ? std::to_string(options.memory_limit->count >> 10) : "",
      options.visible_devices_variable,
      fmt::format("{}", fmt::join(options.device_names, ","))};
  arguments.insert(arguments.end(), spec.command.begin(), spec.command.end());
  return arguments;
}

// Starts the supervisor of a job. It holds the write end of `ready` until the job can be found by
// its files.
absl::StatusOr<int> StartSupervisor(const JobSpec& spec, const LocalEngineOptions& options,
                                    const FileHandle& ready) {
  ASSIGN_OR_RETURN(const FileHandle no_input, OpenEmptyInput());
  ASSIGN_OR_RETURN(const FileHandle output,
                   OpenForAppending(PrefixOf(spec.folder, spec.attempt_id) + ".log"));
  return Spawn({.arguments = ArgumentsOf(spec, options),
                .environment = EnvironmentOf(spec),
                .folder = spec.folder,
                .descriptors = {{STDIN_FILENO, no_input.number()},
                                {STDOUT_FILENO, output.number()},
                                {STDERR_FILENO, output.number()},
                                {kReadyDescriptor, ready.number()}},
                .has_own_session = true});
}

}  // namespace

// The folder is in /tmp because TMPDIR differs between the programs of one user.
std::string UsersSlotsFolder() { return fmt::format("/tmp/meshwright-slots-{}", geteuid()); }

absl::Status MakeSlotsFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        fmt::format("{} cannot be made: {}", folder, std::strerror(errno)));
  }
  // The site guards a folder that it names itself.
  if (folder != UsersSlotsFolder()) return absl::OkStatus();
  struct stat found = {};
  const bool is_own = lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                      found.st_uid == geteuid() && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (is_own) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} must be a folder that only this user can write to", folder));
}

absl::StatusOr<std::string> LocalEngine::Submit(const JobSpec& spec) {
  if (absl::Status checked = Check(spec, options_); !checked.ok()) return checked;
  const std::string prefix = PrefixOf(spec.folder, spec.attempt_id);
  if (auto supervisor = SupervisorOf(prefix); supervisor.has_value()) return *supervisor;
  ASSIGN_OR_RETURN(Pipe ready, MakePipe());
  const auto pid = StartSupervisor(spec, options_, ready.write);
  if (!pid.ok()) {
    return absl::UnavailableError(fmt::format("the job cannot be started in {}: {}", spec.folder,
                                              std::string(pid.status().message())));
  }
  children_.push_back(*pid);
  ready.write.Close();
  WaitForClose(ready.read, kStartLimit);
  if (auto supervisor = SupervisorOf(prefix); supervisor.has_value()) return *supervisor;
  kill(-*pid, SIGKILL);
  return absl::UnavailableError(fmt::format("the job did not begin to run; see {}.log", prefix));
}

absl::StatusOr<std::vector<JobStatus>> LocalEngine::Poll(std::span<const JobHandle> jobs) {
  std::erase_if(children_, [](int pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  std::vector<JobStatus> statuses;
  for (const JobHandle& job : jobs) {
    statuses.push_back(StatusOf(PrefixOf(job.folder, job.attempt_id), rest_since_));
  }
  return statuses;
}

absl::Status LocalEngine::Cancel(const JobHandle& job) {
  const auto supervisor = SupervisorOf(PrefixOf(job.folder, job.attempt_id));
  if (supervisor.has_value() && IsAlive(*supervisor)) kill(PidOf(*supervisor), SIGTERM);
  return absl::OkStatus();
}

}  // namespace meshwright
