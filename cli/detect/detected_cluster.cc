#include "cli/detect/detected_cluster.h"

#include <fmt/format.h>

namespace meshwright {

std::string KindText(const NodeKind& kind) {
  if (kind.devices == 0) return "no devices";
  return fmt::format("{} x {}", kind.devices, kind.chip.empty() ? "a device" : kind.chip);
}

}  // namespace meshwright
