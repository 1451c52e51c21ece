#include "cli/input/cluster_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "cli/detect/detect_cluster.h"
#include "cli/input/read_file.h"
#include "cli/program/terminal.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/process/command.h"

namespace meshwright {
namespace {

// The time that a command of a tool may take; nvidia-smi takes seconds without a persistent driver.
constexpr Seconds kToolLimit = Seconds(30);

// Returns the flags, other than --cluster, that the user stated.
std::vector<std::string_view> NamesOfFacts(const ClusterFlags& flags) {
  std::vector<std::string_view> stated;
  if (!flags.chip.empty()) stated.emplace_back("--chip");
  if (flags.node_count.has_value()) stated.emplace_back("--nodes");
  if (flags.devices_per_node.has_value()) stated.emplace_back("--devices-per-node");
  if (flags.nic_gigabits_per_second.has_value()) stated.emplace_back("--nic");
  return stated;
}

void FillFacts(const ClusterFlags& flags, v1::NodePool& pool) {
  if (!flags.chip.empty()) pool.set_chip(flags.chip);
  if (flags.node_count.has_value()) pool.set_node_count(*flags.node_count);
  if (flags.devices_per_node.has_value()) pool.set_devices_per_node(*flags.devices_per_node);
  if (flags.nic_gigabits_per_second.has_value()) {
    pool.mutable_inter_node()->set_nic_gigabits_per_second(*flags.nic_gigabits_per_second);
  }
}

// Adds an option that a command takes once, unless TakeSeveralClusters says otherwise.
void AddRepeated(CLI::App& command, const char* name, std::string& first,
                 std::vector<std::string>& others, const std::string& description) {
  command
      .add_option_function<std::vector<std::string>>(
          name,
          [&first, &others](const std::vector<std::string>& values) {
            first = values.front();
            others.assign(values.begin() + 1, values.end());
          },
          description)
      ->expected(1)
      ->allow_extra_args(false);
}

absl::StatusOr<CommandOutput> RunTool(const std::vector<std::string>& arguments) {
  return RunCommand(arguments, "", kToolLimit);
}

}  // namespace

void AddClusterOptions(CLI::App& command, ClusterFlags& flags) {
  AddRepeated(command, "--cluster", flags.source, flags.other_sources,
              "YAML or JSON file with the cluster: chips, nodes, links; or a place to look: "
              "slurm[:PARTITION], kubernetes[:LABEL=VALUE], local (a node like this one)");
  AddRepeated(command, "--chip", flags.chip, flags.other_chips,
              "instead of a file: the chip, by its id or as nvidia-smi, rocm-smi, npu-smi or "
              "a label of Kubernetes names it");
  command.add_option(
      "--nodes", flags.node_count,
      "number of equal nodes: with --chip, or instead of those that --cluster finds");
  command.add_option("--devices-per-node", flags.devices_per_node,
                     "with --chip: devices of a node (those of the chip's usual node)");
  command.add_option("--nic", flags.nic_gigabits_per_second,
                     "with --chip: Gbit/s of each NIC (those of the chip's usual node)");
}

void TakeSeveralClusters(CLI::App& command) {
  for (const char* const name : {"--cluster", "--chip"}) {
    command.get_option(name)
        ->expected(1, CLI::detail::expected_max_vector_size)
        ->allow_extra_args(false);
  }
}

std::vector<ClusterFlags> OtherClusters(const ClusterFlags& flags) {
  std::vector<ClusterFlags> others;
  ClusterFlags first = flags;
  first.other_sources.clear();
  first.other_chips.clear();
  for (const std::string& source : flags.other_sources) {
    others.push_back(first);
    others.back().source = source;
  }
  for (const std::string& chip : flags.other_chips) {
    others.push_back(first);
    others.back().chip = chip;
  }
  return others;
}

std::string OtherField(const std::string& field, int index) {
  constexpr std::string_view kOwn = "cluster";
  if (!field.starts_with(kOwn)) return field;
  return fmt::format("clusters[{}]{}", index, field.substr(kOwn.size()));
}

void ReadCluster(const ClusterFlags& flags, v1::Cluster& cluster,
                 std::vector<FieldViolation>& violations) {
  ReadCluster(flags, RunTool, cluster, violations);
}

void ReadCluster(const ClusterFlags& flags, const CommandRunner& run, v1::Cluster& cluster,
                 std::vector<FieldViolation>& violations) {
  const auto reject = [&](std::string description) {
    violations.push_back({.field = "cluster", .description = std::move(description)});
  };
  const std::vector<std::string_view> facts = NamesOfFacts(flags);
  if (const auto place = ParseClusterPlace(flags.source); place.has_value()) {
    const auto found = DetectCluster(
        *place,
        {.has_chip = !flags.chip.empty(), .has_device_count = flags.devices_per_node.has_value()},
        run);
    if (!found.ok()) {
      reject(fmt::format("{}; {}", flags.source, std::string(found.status().message())));
      return;
    }
    for (const std::string& note : found->notes) PrintNote(note);
    cluster = ToWire(found->cluster);
    FillFacts(flags, *cluster.mutable_pools(0));
    return;
  }
  if (!flags.source.empty()) {
    if (!facts.empty()) {
      reject(
          fmt::format("{}; stated beside {}; must be one of the two: a file, or --chip and "
                      "--nodes",
                      flags.source, fmt::join(facts, ", ")));
      return;
    }
    ReadPartFile("cluster", flags.source, cluster, violations);
    return;
  }
  if (flags.chip.empty() || !flags.node_count.has_value()) {
    reject(facts.empty()
               ? "missing; must be stated by --cluster, or by --chip and --nodes"
               : fmt::format("stated by {} alone; must be stated by both --chip and --nodes",
                             fmt::join(facts, ", ")));
    return;
  }
  cluster.set_name(fmt::format("{} node{} of {}", *flags.node_count,
                               *flags.node_count == 1 ? "" : "s", flags.chip));
  FillFacts(flags, *cluster.add_pools());
}

}  // namespace meshwright
