#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

inline constexpr std::string_view kReplayLauncher = "replay";
inline constexpr std::string_view kLocalLauncher = "local";
inline constexpr std::string_view kSlurmLauncher = "slurm";
inline constexpr std::string_view kKubernetesLauncher = "kubernetes";

// The facts about a launcher that reading requests and keeping studies depend on. How it runs jobs
// is a row of JobEngines (server/launchers/job_engines.h).
struct LauncherFacts {
  std::string_view name;
  bool runs_jobs = true;  // false: measured rows of the request stand in for a cluster
  bool takes_engine_flags = false;
  bool needs_kubernetes_options = false;
  // True if jobs run on this machine. Only these may state slots_folder, memory_limit_bytes and
  // visible_devices_variable.
  bool runs_here = false;
  std::string_view memory_advice = {};  // how to limit memory if it does not run here
  // Characters in an id of a study, which jobs are named after.
  std::size_t longest_study_id = 63;
};

// Returns the launchers in the order in which messages list them.
std::span<const LauncherFacts> Launchers();
std::vector<std::string> LauncherNames();

// Returns null for an unknown name.
const LauncherFacts* FindLauncher(std::string_view name);

// Returns true if the launcher of this name runs jobs. It is also true for an unknown name: a store
// may name a launcher of another release, whose jobs may still run.
bool RunsJobs(std::string_view launcher);

}  // namespace meshwright
