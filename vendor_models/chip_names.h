#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vendor_models/chip_file.h"

namespace meshwright {

// Returns the name as it is compared: "NVIDIA H100 80GB HBM3" of nvidia-smi and
// "NVIDIA-H100-80GB-HBM3", the label of Kubernetes, are both "h10080gbhbm3". Letters beyond ASCII
// are kept as they are.
std::string CanonicalName(std::string_view name);

// Returns every name by which a chip can be asked for: its id, name, aliases and reported names.
std::vector<std::string_view> NamesOf(const ChipEntry& chip);

// A name that stands for less than a whole device.
struct PartialName {
  std::string device = {};  // the name of the whole device: `NVIDIA-H100-80GB-HBM3`
  std::string reason = {};  // `a MIG slice (1g.10gb)`, `shared by several pods`
};

// Returns the parts of a name such as NVIDIA-H100-80GB-HBM3-MIG-1g.10gb or Tesla-T4-SHARED, which
// the labels of NVIDIA's GPU feature discovery have (its page "GPU Feature Discovery generated
// Labels"); nullopt if the name is one of a whole device.
std::optional<PartialName> SplitPartialName(std::string_view name);

}  // namespace meshwright
