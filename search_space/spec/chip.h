#pragma once

#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The GEMM time by the tile-and-wave form of docs/cost_model/gemm.md: t = t0 + pnorm(compute,
// memory). The symbols in the comments are those of the document.
struct GemmModel {
  double compute_efficiency = 0.75;  // e, share of the nominal peak
  double memory_efficiency = 0.75;   // eb, share of the nominal bandwidth
  Seconds fixed = Seconds(3e-6);     // t0
  double intensity_half = 0.1;       // s0
  double fill = 128;                 // k0, elements of k
  double quantisation = 0.5;         // q, from 0 (smooth) to 1 (whole waves)
  double norm_exponent = 4;          // p
  Seconds split_k = Seconds(3e-6);   // rk
  bool operator==(const GemmModel&) const = default;
};

// Rows and columns of the output that one core computes at a time.
struct GemmTile {
  double rows = 0;
  double columns = 0;
  bool operator==(const GemmTile&) const = default;
};

// Returns the products of a tile's step per value that the step loads.
constexpr double IntensityOf(const GemmTile& tile) {
  return tile.rows * tile.columns / (tile.rows + tile.columns);
}

// The tiles that GEMM libraries of tensor-core chips choose from (docs/cost_model/gemm.md), the
// largest first.
inline constexpr GemmTile kTensorCoreTiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},
                                                {64, 256},  {128, 64},  {64, 128},  {64, 64}};

// The three products of a linear layer.
enum class GemmPass { kForward, kInputGradient, kWeightGradient };

// The measured time of a GEMM divided by the time that GemmModel gives, at one shape. Sizes and
// ratio are natural logarithms, because the ratio between shapes is a mean over neighbours in
// logarithmic space.
struct GemmResidual {
  double log_count = 0;  // number of groups of a grouped GEMM, otherwise 1
  double log_m = 0;
  double log_n = 0;
  double log_k = 0;
  double log_time_ratio = 0;
  bool operator==(const GemmResidual&) const = default;
};

// The residuals of one precision: docs/cost_model/gemm.md. Those of bf16 apply to fp16 as well.
struct GemmResidualTable {
  Precision precision = Precision::kBf16;
  std::optional<GemmPass> pass = {};  // nullopt: measured as forward, used for all three
  bool is_grouped = false;
  std::vector<GemmResidual> shapes = {};  // never empty; sorted by ascending m
  // The least and greatest of each size, and the mean ratio; IndexShapes() sets them.
  GemmResidual low = {};
  GemmResidual high = {};
  double mean_log_time_ratio = 0;
  bool operator==(const GemmResidualTable&) const = default;
};

// Sorts `shapes` and sets the fields that are derived from them. Call it after the shapes change.
void IndexShapes(GemmResidualTable& table);

// The time of fused attention, with causal FLOPs counted: docs/cost_model/attention.md.
struct AttentionModel {
  double efficiency = 0.5;           // e_inf, share of the nominal peak
  double sequence_half = 600;        // s0, tokens
  double wave_half = 0.9;            // w0
  double flash2_ratio = 1.0;         // rate of FlashAttention-2 over the rate above
  double small_head_ratio = 0.85;    // rate at head sizes <= 96 over rate at 128
  double backward_time_ratio = 2.8;  // backward time over forward time, long sequences
  // The same for the backward pass if it was measured separately; nullopt: as forward.
  std::optional<double> backward_sequence_half = {};
  std::optional<double> backward_wave_half = {};
  bool operator==(const AttentionModel&) const = default;
};

// The kinds of collective. In kRing every rank's share of the message goes around the ring, from
// neighbour to neighbour (ring attention).
enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kRing };

// A measured point of a collective: message bytes as in Collective, and the time.
struct CollectivePoint {
  Bytes bytes = {};
  Seconds time = Seconds(0);
  bool operator==(const CollectivePoint&) const = default;
};

// The time of a collective, t = alpha + (x + sqrt(x * half)) / bandwidth, with x the bytes that one
// rank moves (2 (n-1)/n S for all-reduce, (n-1)/n S for the others):
// docs/cost_model/collectives.md. Within a measured curve the curve applies; beyond its ends the
// formula does.
struct CollectiveFit {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 0;
  Seconds alpha = Seconds(0);
  BytesPerSecond bandwidth = {};
  Bytes half = {};
  std::vector<CollectivePoint> curve = {};  // sorted by ascending bytes; empty: only the formula
  bool operator==(const CollectiveFit&) const = default;
};

// The fabric inside one scale-up domain (usually the node).
struct ScaleUpLink {
  LinkKind kind = LinkKind::kVendor;
  BytesPerSecond bandwidth = {};  // per device and direction, all links together
  int domain_size = 0;            // devices
  NodeTopology topology = NodeTopology::kSwitched;
  bool operator==(const ScaleUpLink&) const = default;
};

// The node in which the chip usually comes; it provides defaults of ClusterSpec.
struct UsualNode {
  int device_count = 8;
  int nic_count = 8;
  double nic_gigabits_per_second = 200;
  LinkKind nic_kind = LinkKind::kInfiniband;
  bool is_published = false;  // false: the documented default node
  bool operator==(const UsualNode&) const = default;
};

// Facts and fitted constants of one accelerator, read from vendor_models/chips/<id>.json. Figures
// that a site may change (memory, links, power) are copied into NodePool and can be overridden
// there.
struct ChipSpec {
  std::string id = {};  // "<vendor>-<chip>", lower case
  std::string vendor = {};
  std::string name = {};
  std::vector<std::string> aliases = {};
  Confidence confidence = Confidence::kLow;
  Bytes memory_capacity = {};                     // nominal
  Bytes reported_memory_capacity = {};            // what its runtime reports in all; 0: not known
  BytesPerSecond memory_bandwidth = {};           // nominal
  std::map<Precision, FlopsPerSecond> peak = {};  // nominal dense peaks
  FlopsPerSecond vector_peak = {};                // fp32 outside the matrix units
  double power_limit_watts = 0;                   // 0: not published
  int core_count = 0;                             // SMs, compute units or cube cores
  Bytes cache = {};                               // last-level cache
  double cache_bandwidth_ratio = 2;               // cache bandwidth / memory bandwidth
  double sustained_time_ratio = 1.2;              // training GEMM time / short-burst time
  double memory_bound_efficiency = 0.65;          // kernels of a layer; share of nominal bandwidth
  double stream_efficiency = 0.85;                // large copies and the optimizer
  Seconds memory_bound_fixed = Seconds(3e-6);     // per kernel
  double permutation_efficiency = 0.2;            // permuting tokens to experts; share of nominal
  BytesPerSecond host_link = {26e9};  // between a device and host memory, each direction
  // The slowdown of computation that communication runs beside, as a share of the hidden time.
  double overlap_slowdown = 0.1;
  GemmModel gemm = {};
  // The tiles that the chip's library chooses from, the highest intensity first; never empty.
  std::vector<GemmTile> gemm_tiles = {std::begin(kTensorCoreTiles), std::end(kTensorCoreTiles)};
  std::vector<GemmResidualTable> gemm_residuals = {};
  AttentionModel attention = {};
  std::vector<CollectiveFit> collectives = {};  // inside one scale-up domain
  ScaleUpLink scale_up = {};
  std::optional<int> torus_axis_count = {};  // axes of its scale-up fabric if that is a torus
  UsualNode usual_node = {};
  Bytes runtime_context = GiB(1.2);  // memory that the runtime takes before the first tensor
  // The weakest provenance of: peaks and memory; gemm; attention; collectives; memory-bound rates.
  Provenance figures_provenance = Provenance::kPublished;
  Provenance gemm_provenance = Provenance::kAssumed;
  Provenance attention_provenance = Provenance::kAssumed;
  Provenance collectives_provenance = Provenance::kAssumed;
  Provenance memory_bound_provenance = Provenance::kAssumed;
  bool operator==(const ChipSpec&) const = default;
};

}  // namespace meshwright
