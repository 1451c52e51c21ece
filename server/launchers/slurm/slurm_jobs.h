#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// What Slurm's commands print, and the script that is given to them. Words of states and reasons:
// squeue(1), "JOB STATE CODES" and "JOB REASON CODES", Slurm 22.05.

struct SlurmJob {
  std::string id = {};
  std::string name = {};
  std::string state = {};   // "PENDING", "CANCELLED", ...
  std::string reason = {};  // "Resources", "NonZeroExitCode", ...
  std::string nodes = {};   // "n[1-2]"
  std::optional<int> wait_status = {};
  std::optional<Seconds> run_time = {};  // so far
};

// For squeue's --Format: the fields of a SlurmJob. Then the jobs that it printed; a line that is
// none is left out.
inline constexpr std::string_view kSqueueFormat =
    "JobID:|,Name:|,State:|,Reason:|,NodeList:|,exit_code:|,TimeUsed:";
std::vector<SlurmJob> ParseSqueue(std::string_view text);

// For sacct's --format where there is accounting, and what it prints of the file of completed jobs
// (--completion, whose fields are fixed) where there is none.
inline constexpr std::string_view kSacctFormat = "JobIDRaw,JobName,State,ExitCode,NodeList,Elapsed";
std::vector<SlurmJob> ParseSacct(std::string_view text);
std::vector<SlurmJob> ParseCompletion(std::string_view text);

JobStatus StatusOf(const SlurmJob& job);

// Whether a pending job waits for what will not come. Slurm accepts a request that its partition
// can never meet, and keeps it for ever.
bool IsHopeless(std::string_view reason);

// "n[1-3,7],gpu05" as single names; what cannot be read stays as it is.
std::vector<std::string> NodeNames(std::string_view list);

// The batch script of a job, for sbatch's standard input.
std::string SlurmScript(const JobSpec& spec);
// The flags of sbatch that we set.
std::vector<std::string> SlurmFlags(const JobSpec& spec);

}  // namespace meshwright
