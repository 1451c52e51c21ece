#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/detect/detected_cluster.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

// An accelerator of this machine, as a tool of its vendor names it.
struct LocalDevice {
  std::string name = {};
  std::optional<double> power_limit_watts = {};
  bool is_sliced = false;  // it is divided into MIG slices
  bool operator==(const LocalDevice&) const = default;
};

// Parse the outputs of the commands that DetectLocal runs. Text that cannot be read has no devices.
std::vector<LocalDevice> ParseNvidiaSmi(std::string_view text);
std::vector<LocalDevice> ParseRocmSmi(const std::string& text);
std::vector<LocalDevice> ParseNpuSmi(std::string_view text);
std::vector<LocalDevice> ParseLspci(std::string_view text);

// Reads the active adapters for InfiniBand and RoCE from /sys/class/infiniband, or a folder like
// it. Returns those of the rate that carries the most, since a slower one is for management.
InterNodeRequest ReadAdapters(const std::string& folder);

struct LocalPlaces {
  std::string adapters = "/sys/class/infiniband";
  std::string memory = "/proc/meminfo";
};

// Finds the accelerators of this machine as a cluster of one node. NOT_FOUND if it has none.
absl::StatusOr<DetectedCluster> DetectLocal(const StatedFacts& stated, const CommandRunner& run,
                                            const LocalPlaces& places);

}  // namespace meshwright
