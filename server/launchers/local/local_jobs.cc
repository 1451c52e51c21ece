#include "server/launchers/local/local_jobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "server/launchers/jobs/job_environment.h"

namespace meshwright {
namespace {

// Returns the devices that the variable for visible devices lists where the launcher runs, or
// nullopt if it is not set there.
std::optional<std::vector<std::string>> ListedDevices(const JobTemplate& job) {
  const std::string& variable = job.visible_devices_variable;
  if (variable.empty()) return std::nullopt;
  const std::map<std::string, std::string> of_job = EnvironmentOf(job);
  const auto stated = of_job.find(variable);
  const char* const own = std::getenv(variable.c_str());
  std::string list;
  if (stated != of_job.end()) {
    list = stated->second;
  } else if (own != nullptr) {
    list = own;
  } else {
    return std::nullopt;
  }
  std::istringstream in(list);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name, ',');) names.push_back(std::move(name));
  return names;
}

}  // namespace

void CheckLocal(const JobTemplate& job, const ClusterSpec& cluster,
                std::vector<FieldViolation>& found) {
  const int node_count = cluster.pools.front().node_count;
  if (node_count != 1) {
    found.push_back({.field = "cluster.pools[0].node_count",
                     .description = fmt::format("{}; must be 1: this launcher runs jobs only on "
                                                "this machine",
                                                node_count)});
  }
  const bool is_named = !job.slots_folder.empty();
  const absl::Status made = MakeSlotsFolder(is_named ? job.slots_folder : UsersSlotsFolder());
  if (!made.ok()) {
    found.push_back(
        {.field = "trials.job.slots_folder", .description = std::string(made.message())});
  }
  const auto listed = ListedDevices(job);
  const auto device_count = static_cast<std::size_t>(DeviceCount(cluster));
  if (listed.has_value() && listed->size() < device_count) {
    found.push_back({.field = "trials.job.visible_devices_variable",
                     .description = fmt::format("{}={}; must list at least {} devices, or not be "
                                                "set where the launcher runs",
                                                job.visible_devices_variable,
                                                fmt::join(*listed, ","), device_count)});
  }
  if (!listed.has_value()) return;
  std::set<std::string> once(listed->begin(), listed->end());
  if (once.size() < listed->size() || once.contains("")) {
    found.push_back(
        {.field = "trials.job.visible_devices_variable",
         .description = fmt::format("{}={}; must name each device once",
                                    job.visible_devices_variable, fmt::join(*listed, ","))});
  }
}

LocalEngineOptions LocalOptionsOf(const JobTemplate& job, int device_count) {
  LocalEngineOptions options = {
      .slots_folder = job.slots_folder.empty() ? UsersSlotsFolder() : job.slots_folder,
      .slot_count = device_count,
      .slots_per_job = device_count,
      .visible_devices_variable = job.visible_devices_variable,
      .memory_limit = job.memory_limit};
  if (auto listed = ListedDevices(job); listed.has_value()) {
    options.slot_count = static_cast<int>(listed->size());
    options.device_names = *std::move(listed);
  } else if (!job.visible_devices_variable.empty()) {
    for (int i = 0; i < device_count; ++i) options.device_names.push_back(std::to_string(i));
  }
  return options;
}

}  // namespace meshwright
