#include "server/launchers/slurm/slurm_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "search_space/base/units.h"
#include "server/process/shell_word.h"
#include "server/process/spawn.h"

namespace meshwright {
namespace {

struct StateRow {
  std::string_view word;
  JobState state;
  JobEndKind end = JobEndKind::kExited;  // with kEnded
};

// Other states are transitions between these.
constexpr StateRow kStates[] = {
    {"PENDING", JobState::kPending},
    {"CONFIGURING", JobState::kPending},
    {"REQUEUED", JobState::kPending},
    {"REQUEUE_FED", JobState::kPending},
    {"REQUEUE_HOLD", JobState::kPending},
    {"RESV_DEL_HOLD", JobState::kPending},
    {"SPECIAL_EXIT", JobState::kPending},
    {"COMPLETED", JobState::kEnded},
    {"FAILED", JobState::kEnded},
    {"OUT_OF_MEMORY", JobState::kEnded, JobEndKind::kOutOfMemory},
    {"TIMEOUT", JobState::kEnded, JobEndKind::kTimeLimit},
    {"DEADLINE", JobState::kEnded, JobEndKind::kTimeLimit},
    {"NODE_FAIL", JobState::kEnded, JobEndKind::kNodeFailure},
    {"BOOT_FAIL", JobState::kEnded, JobEndKind::kNodeFailure},
    {"PREEMPTED", JobState::kEnded, JobEndKind::kPreempted},
    {"CANCELLED", JobState::kEnded, JobEndKind::kCancelled},
    {"REVOKED", JobState::kEnded, JobEndKind::kCancelled},
};

// Limits of a partition, an account or a QOS that one job exceeds. Limits on all jobs of somebody
// together (AssocGrp..., QOSGrp..., ...PerUser...) pass with time.
constexpr std::string_view kHopeless[] = {
    "AccountNotAllowed", "BadConstraints",  "DependencyNeverSatisfied", "InvalidAccount",
    "InvalidQOS",        "PartitionConfig", "PartitionNodeLimit",       "PartitionTimeLimit",
    "QOSNotAllowed",     "QOSTimeLimit",
};
// "QOSMaxNodePerJobLimit" concerns the job itself, while "QOSMaxJobsPerUserLimit" waits for other
// jobs.
constexpr std::string_view kLimitPrefixes[] = {"AssocMax", "QOSMax"};
constexpr std::string_view kOfOneJob[] = {"PerJob", "PerNode"};
constexpr std::string_view kLeastPrefix = "QOSMin";
// More nodes than a Slurm cluster has (MAX_SLURM_NODES is 65,536): such a range is no list of
// names.
constexpr int kMaxNodes = 65'536;
constexpr std::size_t kMaxDigits = 10;  // of the number in a node's name

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// Returns the first word: accounting says "CANCELLED by 1000".
std::string FirstWord(std::string_view text) { return std::string(text.substr(0, text.find(' '))); }

std::vector<std::vector<std::string_view>> Rows(std::string_view text, std::size_t fields) {
  std::vector<std::vector<std::string_view>> rows;
  for (const std::string_view line : Split(text, '\n')) {
    std::vector<std::string_view> row = Split(line, '|');
    if (row.size() >= fields && Number(row.front()).has_value()) rows.push_back(std::move(row));
  }
  return rows;
}

// Parses what accounting writes: "3:0" is an exit code and a signal.
std::optional<int> WaitStatus(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const std::optional<int> code = Number(parts[0]);
  const std::optional<int> signal = Number(parts[1]);
  if (!code.has_value() || !signal.has_value()) return std::nullopt;
  return W_EXITCODE(*code, *signal);
}

// Parses "[days-][hours:]minutes:seconds". Jobs that never ran show 0 too.
std::optional<Seconds> ElapsedTime(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::optional<int> days = dash == std::string_view::npos ? 0 : Number(text.substr(0, dash));
  if (!days.has_value()) return std::nullopt;
  const auto parts = Split(text.substr(dash == std::string_view::npos ? 0 : dash + 1), ':');
  double seconds = 0;
  for (const std::string_view part : parts) {
    const std::optional<int> number = Number(part);
    if (!number.has_value()) return std::nullopt;
    seconds = 60 * seconds + *number;
  }
  seconds += 86400.0 * *days;
  if (parts.size() < 2 || parts.size() > 3 || seconds <= 0) return std::nullopt;
  return Seconds(seconds);
}

// Adds the names of "[1-3,7]" after `prefix`; returns false if it cannot be read, or has more names
// than a cluster.
bool AddRange(std::string_view prefix, std::string_view range, std::vector<std::string>& names) {
  for (const std::string_view part : Split(range, ',')) {
    const auto ends = Split(part, '-');
    const std::optional<int> first = Number(ends.front());
    const std::optional<int> last = Number(ends.back());
    if (ends.size() > 2 || !first.has_value() || !last.has_value()) return false;
    if (ends.front().size() > kMaxDigits) return false;
    if (std::int64_t{*last} - *first + std::ssize(names) >= kMaxNodes) return false;
    for (std::int64_t i = *first; i <= *last; ++i) {
      names.push_back(fmt::format("{}{:0{}}", prefix, i, ends.front().size()));
    }
  }
  return true;
}

}  // namespace

std::vector<SlurmJob> ParseSqueue(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const auto& row : Rows(text, 7)) {
    jobs.push_back({.id = std::string(row[0]),
                    .name = std::string(row[1]),
                    .state = FirstWord(row[2]),
                    .reason = std::string(row[3]),
                    .nodes = std::string(row[4]),
                    .wait_status = Number(row[5]),
                    .run_time = ElapsedTime(row[6])});
  }
  return jobs;
}

std::vector<SlurmJob> ParseSacct(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const auto& row : Rows(text, 6)) {
    jobs.push_back({.id = std::string(row[0]),
                    .name = std::string(row[1]),
                    .state = FirstWord(row[2]),
                    .reason = std::string(row[2]),
                    .nodes = std::string(row[4]),
                    .wait_status = WaitStatus(row[3]),
                    .run_time = ElapsedTime(row[5])});
  }
  return jobs;
}

std::vector<SlurmJob> ParseCompletion(std::string_view text) {
  std::vector<SlurmJob> jobs;
  for (const auto& row : Rows(text, 8)) {
    jobs.push_back({.id = std::string(row[0]),
                    .name = std::string(row[2]),
                    .state = FirstWord(row[6]),
                    .reason = std::string(row[6]),
                    .nodes = std::string(row[5])});
  }
  return jobs;
}

JobStatus StatusOf(const SlurmJob& job) {
  const auto row = std::ranges::find(kStates, job.state, &StateRow::word);
  JobStatus status = {.external_id = job.id,
                      .state = row == std::end(kStates) ? JobState::kRunning : row->state,
                      .reason = job.reason.empty() || job.reason == "None" ? job.state : job.reason,
                      .nodes = NodeNames(job.nodes)};
  if (status.state != JobState::kEnded) return status;
  status.end = {.kind = row->end};
  status.run_time = job.run_time;
  if (row->end == JobEndKind::kExited && job.wait_status.has_value()) {
    status.end->exit_code = ExitCodeOf(*job.wait_status);
  } else if (job.state == "COMPLETED") {
    status.end->exit_code = 0;
  }
  return status;
}

bool IsHopeless(std::string_view reason) {
  const auto begins = [reason](std::string_view prefix) { return reason.starts_with(prefix); };
  const auto holds = [reason](std::string_view part) {
    return reason.find(part) != std::string_view::npos;
  };
  return std::ranges::find(kHopeless, reason) != std::end(kHopeless) || begins(kLeastPrefix) ||
         (std::ranges::any_of(kLimitPrefixes, begins) && std::ranges::any_of(kOfOneJob, holds));
}

std::vector<std::string> NodeNames(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t bracket = list.find('[');
    const std::size_t comma = list.find(',');
    if (comma < bracket || bracket == std::string_view::npos) {
      names.emplace_back(list.substr(0, comma));
      list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
      continue;
    }
    const std::size_t close = list.find(']', bracket);
    if (close == std::string_view::npos) return {std::string(list)};
    const std::string_view range = list.substr(bracket + 1, close - bracket - 1);
    if (!AddRange(list.substr(0, bracket), range, names)) {
      names.emplace_back(list.substr(0, close + 1));
    }
    list.remove_prefix(std::min(list.size(), close + 1));
    if (list.starts_with(',')) list.remove_prefix(1);
  }
  return names;
}

// The script's srun ends all tasks if one of them fails. The node of the batch script is the job's
// first.
std::string SlurmScript(const JobSpec& spec) {
  std::string script = "#!/bin/bash\n";
  for (const auto& [name, value] : spec.environment) {
    script += fmt::format("export {}={}\n", name, ShellWord(value));
  }
  script += fmt::format("export {}={}\n", kAttemptVariable, ShellWord(spec.attempt_id));
  script += "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 12000))\n";
  script +=
      "exec srun --kill-on-bad-exit=1 bash -c 'export RANK=$SLURM_PROCID "
      "LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=$SLURM_LAUNCH_NODE_IPADDR; "
      "exec \"$@\"' bash";
  for (const std::string& word : spec.command) script += " " + ShellWord(word);
  return script + "\n";
}

std::vector<std::string> SlurmFlags(const JobSpec& spec) {
  // Slurm counts in minutes.
  const int minutes = std::max(1, static_cast<int>(std::ceil(spec.time_limit.count() / 60)));
  std::vector<std::string> flags = {"--parsable",
                                    "--no-requeue",
                                    "--job-name=" + spec.attempt_id,
                                    "--comment=meshwright:" + spec.attempt_id,
                                    fmt::format("--chdir={}", spec.folder),
                                    fmt::format("--output={}/{}.log", spec.folder, spec.attempt_id),
                                    fmt::format("--time={}", minutes),
                                    fmt::format("--nodes={}", spec.node_count),
                                    fmt::format("--ntasks-per-node={}", spec.processes_per_node)};
  if (!spec.excluded_nodes.empty()) {
    flags.push_back(fmt::format("--exclude={}", fmt::join(spec.excluded_nodes, ",")));
  }
  return flags;
}

}  // namespace meshwright
