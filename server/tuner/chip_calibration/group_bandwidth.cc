#include "server/tuner/chip_calibration/group_bandwidth.h"

#include <algorithm>

#include "estimator/terms/collective.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

constexpr Bytes kTimedMessage = {std::int64_t{1} << 30};
constexpr int kLargestGroup = 64;  // largest group that is not a whole domain

// Returns the usual nodes of one domain.
NodePool Domain(const ChipSpec& chip) {
  const int devices = chip.usual_node.device_count;
  return {.chip = chip,
          .node_count = std::max(1, chip.scale_up.domain_size / devices),
          .devices_per_node = devices,
          .intra_node = chip.scale_up};
}

BytesPerSecond BusBandwidth(CollectiveKind kind, int ranks, const NodePool& domain) {
  const double moves = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double moved = moves * (ranks - 1) / ranks * static_cast<double>(kTimedMessage.count);
  return {moved / CollectiveTime(kind, kTimedMessage, {ranks, 1}, domain, {}).count()};
}

// Returns true if the chip file has rows of both for groups of this size.
bool IsKnown(int ranks, const ChipSpec& chip) {
  const auto has = [&](CollectiveKind kind) {
    return std::ranges::any_of(chip.collectives, [&](const CollectiveFit& fit) {
      return fit.kind == kind && fit.ranks == ranks;
    });
  };
  return has(CollectiveKind::kAllReduce) && has(CollectiveKind::kAllToAll);
}

}  // namespace

std::vector<GroupBandwidth> GroupBandwidths(const ChipSpec& chip) {
  const NodePool domain = Domain(chip);
  const int whole = ScaleUpDeviceCount(domain);
  std::vector<int> sizes;
  for (int ranks = 2; ranks < whole && ranks <= kLargestGroup; ranks *= 2) sizes.push_back(ranks);
  if (whole > 1) sizes.push_back(whole);
  std::vector<GroupBandwidth> groups;
  groups.reserve(sizes.size());
  for (const int ranks : sizes) {
    groups.push_back(
        {.ranks = ranks,
         .all_reduce = BusBandwidth(CollectiveKind::kAllReduce, ranks, domain),
         .all_to_all = BusBandwidth(CollectiveKind::kAllToAll, ranks, domain),
         .provenance = IsKnown(ranks, chip) ? chip.collectives_provenance : Provenance::kAssumed});
  }
  return groups;
}

}  // namespace meshwright
