#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/detect/detected_cluster.h"
#include "meshwright/v1/problem.pb.h"
#include "search_space/base/status.h"

namespace CLI {
class App;
}

namespace meshwright {

// The flags that state a cluster: a file, the facts of a cluster of equal nodes, or a place to look
// for one, whose facts the other flags may replace.
struct ClusterFlags {
  std::string source = {};  // path, or slurm[:PARTITION], kubernetes[:SELECTOR], local; empty: none
  std::string chip = {};    // id or any other name of a chip; empty: none
  std::optional<int> node_count = {};
  std::optional<int> devices_per_node = {};
  std::optional<double> nic_gigabits_per_second = {};
  // Further values of --cluster and --chip, which only `tune` takes (TakeSeveralClusters).
  std::vector<std::string> other_sources = {};
  std::vector<std::string> other_chips = {};
  bool operator==(const ClusterFlags&) const = default;
};

// Adds the options to a command. `flags` must outlive `command`.
void AddClusterOptions(CLI::App& command, ClusterFlags& flags);

// Lets --cluster and --chip of a command be stated several times.
void TakeSeveralClusters(CLI::App& command);

// Returns the flags of each cluster beside the first: one for each further file or place, and one
// for each further chip, with the other facts of the first.
std::vector<ClusterFlags> OtherClusters(const ClusterFlags& flags);

// Returns the name that a field of the cluster has in another one: "clusters[0].name".
std::string OtherField(const std::string& field, int index);

// Reads the cluster that the flags state first and adds all mistakes to the list, under the field
// "cluster". Notes on stderr say what a place was found to have.
void ReadCluster(const ClusterFlags& flags, v1::Cluster& cluster,
                 std::vector<FieldViolation>& violations);

// The same with another way to run the commands of tools.
void ReadCluster(const ClusterFlags& flags, const CommandRunner& run, v1::Cluster& cluster,
                 std::vector<FieldViolation>& violations);

}  // namespace meshwright
