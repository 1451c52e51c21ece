#include "server/launchers/slurm/slurm_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "server/process/command.h"

namespace meshwright {
namespace {

// Messages of sbatch that do not blame the request, which may succeed later (slurm_errno.h).
constexpr std::string_view kTransient[] = {"Unable to contact slurm controller",
                                           "Socket timed out",
                                           "temporarily unable",
                                           "Resource temporarily unavailable",
                                           "Zero Bytes were transmitted",
                                           "Connection refused"};

std::string LastLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

absl::Status Failure(const std::string& program, const CommandOutput& output) {
  const std::string message = fmt::format("{}: {}", program, LastLine(output.err));
  const bool is_transient = std::ranges::any_of(kTransient, [&](std::string_view words) {
    return output.err.find(words) != std::string::npos;
  });
  return is_transient ? absl::UnavailableError(message) : absl::FailedPreconditionError(message);
}

}  // namespace

absl::StatusOr<std::string> SlurmEngine::Ask(const std::vector<std::string>& command) const {
  auto output = RunCommand(command, "", options_.command_limit);
  if (!output.ok()) return absl::UnavailableError(output.status().message());
  if (output->exit_code == 0) return std::move(output->out);
  return absl::UnavailableError(fmt::format("{}: {}", command.front(), LastLine(output->err)));
}

absl::StatusOr<std::string> SlurmEngine::Submit(const JobSpec& spec) {
  std::vector<std::string> command = {"sbatch"};
  command.insert(command.end(), options_.sbatch_flags.begin(), options_.sbatch_flags.end());
  const std::vector<std::string> flags = SlurmFlags(spec);
  command.insert(command.end(), flags.begin(), flags.end());
  ASSIGN_OR_RETURN(const CommandOutput output,
                   RunCommand(command, SlurmScript(spec), options_.command_limit));
  if (output.exit_code != 0) return Failure("sbatch", output);
  // It prints "12" or, in a federation, "12;cluster".
  const std::string line = LastLine(output.out);
  return line.substr(0, line.find(';'));
}

std::vector<SlurmJob> SlurmEngine::Finished(const std::string& names) const {
  const std::vector<std::string> all = {"sacct", "--noheader", "--parsable2", "--name=" + names};
  std::vector<std::string> accounting = all;
  accounting.insert(accounting.end(), {"--allocations", "--starttime=now-7days",
                                       fmt::format("--format={}", kSacctFormat)});
  if (const auto text = Ask(accounting); text.ok()) return ParseSacct(*text);
  std::vector<std::string> completion = all;
  completion.emplace_back("--completion");
  const auto text = Ask(completion);
  return text.ok() ? ParseCompletion(*text) : std::vector<SlurmJob>();
}

absl::StatusOr<std::vector<JobStatus>> SlurmEngine::Poll(std::span<const JobHandle> jobs) {
  if (jobs.empty()) return std::vector<JobStatus>();
  std::vector<std::string> ids;
  for (const JobHandle& job : jobs) ids.push_back(job.attempt_id);
  const std::string names = fmt::format("{}", fmt::join(ids, ","));
  ASSIGN_OR_RETURN(const std::string text,
                   Ask({"squeue", "--noheader", "--all", "--states=all", "--name=" + names,
                        fmt::format("--Format={}", kSqueueFormat)}));
  std::vector<SlurmJob> known = ParseSqueue(text);
  const auto is_known = [&known](const JobHandle& job) {
    return std::ranges::find(known, job.attempt_id, &SlurmJob::name) != known.end();
  };
  if (!std::ranges::all_of(jobs, is_known)) {
    for (SlurmJob& job : Finished(names)) known.push_back(std::move(job));
  }
  std::vector<JobStatus> statuses;
  for (const JobHandle& job : jobs) {
    const auto found = std::ranges::find(known, job.attempt_id, &SlurmJob::name);
    statuses.push_back(found == known.end() ? JobStatus() : StatusOf(*found));
    RETURN_IF_ERROR(RefuseIfHopeless(job, statuses.back()));
  }
  return statuses;
}

absl::Status SlurmEngine::RefuseIfHopeless(const JobHandle& job, JobStatus& status) {
  if (status.state != JobState::kPending || !IsHopeless(status.reason)) {
    hopeless_since_.erase(job.attempt_id);
    return absl::OkStatus();
  }
  const auto since = hopeless_since_.emplace(job.attempt_id, Clock::now()).first->second;
  if (Clock::now() - since < options_.hopeless_limit) return absl::OkStatus();
  RETURN_IF_ERROR(Cancel({.attempt_id = job.attempt_id}));
  status.state = JobState::kEnded;
  status.end = {.kind = JobEndKind::kRefused};
  return absl::OkStatus();
}

absl::Status SlurmEngine::Cancel(const JobHandle& job) {
  // It cancels by name, because an id may by now be another job's. scancel accepts that there is
  // nothing to cancel.
  return Ask({"scancel", "--name=" + job.attempt_id}).status();
}

}  // namespace meshwright
