#include "server/tuner/question/launcher_facts.h"

#include <algorithm>

namespace meshwright {
namespace {

constexpr LauncherFacts kLaunchers[] = {
    {.name = kReplayLauncher, .runs_jobs = false},
    {.name = kLocalLauncher, .runs_here = true},
    {.name = kSlurmLauncher,
     .takes_engine_flags = true,
     .memory_advice = "give Slurm the engine flag --mem or --mem-per-cpu"},
    // A job's name may have 52 characters, and "-t<trial>-a<attempt>" takes up to 12 of them.
    {.name = kKubernetesLauncher,
     .needs_kubernetes_options = true,
     .memory_advice = "set the resources of the Kubernetes job template",
     .longest_study_id = 40},
};

}  // namespace

std::span<const LauncherFacts> Launchers() { return kLaunchers; }

std::vector<std::string> LauncherNames() {
  std::vector<std::string> names;
  for (const LauncherFacts& launcher : kLaunchers) names.emplace_back(launcher.name);
  return names;
}

const LauncherFacts* FindLauncher(std::string_view name) {
  const auto* const found = std::ranges::find(kLaunchers, name, &LauncherFacts::name);
  return found == std::end(kLaunchers) ? nullptr : found;
}

bool RunsJobs(std::string_view launcher) {
  const LauncherFacts* const found = FindLauncher(launcher);
  return found == nullptr || found->runs_jobs;
}

}  // namespace meshwright
