#include "server/tuner/question/chip_doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>

#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

std::string Doubt(const ChipSpec& chip) {
  return fmt::format(
      "chip {}: its figures have low confidence, so intervals are wider; measure the chip "
      "(`meshwright calibrate`) before you choose plans or chips by them",
      chip.id);
}

// Returns what is assumed about the chip, or "" if each kind of operator rests on data of the chip
// or of a similar one. Attention without a kernel of its own consists of the other operators.
std::string AssumedNote(const ChipSpec& chip, const Workload& workload, int device_count) {
  const bool has_kernel = workload.attention_kernel != AttentionKernel::kUnfused &&
                          workload.attention_kernel != AttentionKernel::kFusedSoftmax;
  const std::tuple<std::string_view, Provenance, bool> kinds[] = {
      {"GEMM", chip.gemm_provenance, true},
      {"attention", chip.attention_provenance, has_kernel},
      {"memory-bound operators", chip.memory_bound_provenance, true},
      {"collectives", chip.collectives_provenance, device_count > 1}};
  std::string names;
  for (const auto& [name, provenance, is_used] : kinds) {
    if (provenance != Provenance::kAssumed || !is_used) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  if (names.empty()) return "";
  return fmt::format(
      "chip {}: constants of {} are assumed, so intervals are wider; measure the chip "
      "(`meshwright calibrate`)",
      chip.id, names);
}

// Returns true if collectives of the pool are estimated from the links of a ring or torus. Measured
// collectives in the chip file take precedence over its wiring.
bool IsEstimatedFromAxes(const NodePool& pool) {
  const NodeTopology topology = pool.intra_node.topology;
  return pool.chip.collectives.empty() &&
         (topology == NodeTopology::kRing || topology == NodeTopology::kTorus);
}

std::string AxesNote(const NodePool& pool) {
  return fmt::format(
      "chip {}: messages between stages are estimated as if over a switch, and every axis as a "
      "closed ring, although its devices form a {} (docs/cost_model/collectives.md)",
      pool.chip.id, Word(pool.intra_node.topology));
}

}  // namespace

void AddChipDoubts(const ClusterSpec& cluster, const Workload& workload,
                   std::vector<std::string>& warnings) {
  const std::vector<NodePool>& pools = cluster.pools;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const ChipSpec& chip = pools[i].chip;
    const bool is_known =
        std::ranges::any_of(std::span(pools).first(i),
                            [&chip](const NodePool& pool) { return pool.chip.id == chip.id; });
    if (is_known) continue;
    std::string note = chip.confidence == Confidence::kLow
                           ? Doubt(chip)
                           : AssumedNote(chip, workload, DeviceCount(cluster));
    if (!note.empty()) warnings.push_back(std::move(note));
    if (IsEstimatedFromAxes(pools[i])) warnings.push_back(AxesNote(pools[i]));
  }
}

}  // namespace meshwright
