#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// The output of Slurm's commands, and the script that they are given. States and reasons are those
// of squeue(1), "JOB STATE CODES" and "JOB REASON CODES", Slurm 22.05.

struct SlurmJob {
  std::string id = {};
  std::string name = {};
  std::string state = {};   // "PENDING", "CANCELLED", ...
  std::string reason = {};  // "Resources", "NonZeroExitCode", ...
  std::string nodes = {};   // such as "n[1-2]"
  std::optional<int> wait_status = {};
  std::optional<Seconds> run_time = {};  // so far
};

// The fields of a SlurmJob for squeue's --Format, and a parser of its output, which skips
// lines that describe no job.
inline constexpr std::string_view kSqueueFormat =
    "JobID:|,Name:|,State:|,Reason:|,NodeList:|,exit_code:|,TimeUsed:";
std::vector<SlurmJob> ParseSqueue(std::string_view text);

// The fields for sacct's --format if there is accounting, and a parser that also reads the file of
// completed jobs (--completion, whose fields are fixed) if there is none.
inline constexpr std::string_view kSacctFormat = "JobIDRaw,JobName,State,ExitCode,NodeList,Elapsed";
std::vector<SlurmJob> ParseSacct(std::string_view text);
std::vector<SlurmJob> ParseCompletion(std::string_view text);

JobStatus StatusOf(const SlurmJob& job);

// Returns true if a pending job waits for something that will not come. Slurm accepts a request
// that its partition can never meet and keeps it for ever.
bool IsHopeless(std::string_view reason);

// Splits "n[1-3,7],gpu05" into single names; text that cannot be read stays as it is.
std::vector<std::string> NodeNames(std::string_view list);

// Returns the batch script of a job for sbatch's standard input.
std::string SlurmScript(const JobSpec& spec);
// Returns the flags of sbatch that we set.
std::vector<std::string> SlurmFlags(const JobSpec& spec);

}  // namespace meshwright
