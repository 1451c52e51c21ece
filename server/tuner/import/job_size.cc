#include "server/tuner/import/job_size.h"

#include <array>
#include <charconv>
#include <initializer_list>
#include <span>
#include <string_view>

#include "server/tuner/import/text/setting.h"

namespace meshwright {
namespace {

constexpr std::array<std::string_view, 8> kNodeKeys = {
    "nnodes",       "num-nodes",         "num-machines", "experiment.runner.nnodes",
    "num_machines", "trainer.num_nodes", "n-nodes",      "worker-num"};
constexpr std::array<std::string_view, 7> kProcessKeys = {
    "nproc-per-node",  "num-gpus",      "experiment.runner.nproc_per_node",
    "trainer.devices", "gpus-per-node", "local-worker-num",
    "ntasks-per-node"};

std::optional<int> WholeNumber(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc() && end == text.data() + text.size() && value > 0;
  return is_whole ? std::optional(value) : std::nullopt;
}

// Takes the first of the keys that is stated. What is not known is remembered, and no mistake.
std::optional<int> TakeFirst(SettingReader& settings, std::span<const std::string_view> keys,
                             std::string& unresolved) {
  std::optional<int> found;
  for (const std::string_view key : keys) {
    const auto stated = settings.Extract([&](const Setting& s) { return s.key == key; });
    if (stated.empty()) continue;
    const Setting& last = stated.back();
    if (!last.unresolved.empty()) {
      unresolved = last.unresolved;
    } else if (const auto value = WholeNumber(last.value)) {
      found = found.has_value() ? found : value;
    } else {
      unresolved = last.key + " = " + last.value;  // "1:4", "gpu"
    }
  }
  return found;
}

std::optional<int> OptionOf(const std::map<std::string, std::string>& batch,
                            std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = batch.find(name);
    if (found == batch.end()) continue;
    // "gpu:8", "gpu:a100:8"
    const std::size_t colon = found->second.rfind(':');
    const std::size_t begin = colon == std::string::npos ? 0 : colon + 1;
    if (const auto value = WholeNumber(std::string_view(found->second).substr(begin))) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> JobProcesses::Count() const {
  if (all.has_value()) return all;
  if (!nodes.has_value() || !of_node.has_value()) return std::nullopt;
  return *nodes * *of_node;
}

JobProcesses TakeProcesses(SettingReader& settings,
                           const std::map<std::string, std::string>& batch) {
  JobProcesses processes;
  processes.nodes = TakeFirst(settings, kNodeKeys, processes.unresolved);
  processes.of_node = TakeFirst(settings, kProcessKeys, processes.unresolved);
  constexpr std::string_view kAll[] = {"num-processes", "num_processes"};
  processes.all = TakeFirst(settings, kAll, processes.unresolved);
  // Paddle lists the devices of a node, and one node is usual.
  for (const std::string_view key : {"devices", "gpus", "npus", "xpus"}) {
    if (!settings.Has(key)) continue;
    processes.of_node = static_cast<int>(settings.List(key).size());
    if (!processes.nodes.has_value() && processes.unresolved.empty()) processes.nodes = 1;
  }
  if (!processes.nodes.has_value()) processes.nodes = OptionOf(batch, {"--nodes", "-N"});
  if (!processes.of_node.has_value()) {
    processes.of_node = OptionOf(batch, {"--gpus-per-node", "--gres", "--ntasks-per-node"});
  }
  // Launchers start one node unless they are told otherwise.
  if (processes.of_node.has_value() && !processes.nodes.has_value() &&
      processes.unresolved.empty()) {
    processes.nodes = 1;
  }
  return processes;
}

}  // namespace meshwright
