#pragma once

#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// GEMM time by the tile-and-wave form of docs/cost_model.md ("GEMM"):
// t = t0 + pnorm(compute, memory). Symbols in the comments are the document's.
struct GemmModel {
  double compute_efficiency = 0.75;  // e, share of the nominal peak
  double memory_efficiency = 0.75;   // eb, share of the nominal bandwidth
  Seconds fixed = Seconds(3e-6);     // t0
  double intensity_half = 0.1;       // s0
  double fill = 128;                 // k0, elements of k
  double quantisation = 0.5;         // q, 0 smooth .. 1 whole waves
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

// What GEMM libraries of tensor-core chips choose from (docs/cost_model.md "GEMM"), the largest
// first.
inline constexpr GemmTile kTensorCoreTiles[] = {{256, 128}, {128, 256}, {128, 128}, {256, 64},
                                                {64, 256},  {128, 64},  {64, 128},  {64, 64}};

// The three products of a linear layer.
enum class GemmPass { kForward, kInputGradient, kWeightGradient };

// Measured GEMM time over the time by GemmModel, at one shape; natural logarithms, because between
// the shapes the ratio is a mean over neighbours in them.
struct GemmResidual {
  double log_count = 0;  // groups of a grouped GEMM, 1 else
  double log_m = 0;
  double log_n = 0;
  double log_k = 0;
  double log_time_ratio = 0;
  bool operator==(const GemmResidual&) const = default;
};

// Residuals of one precision: docs/cost_model.md ("GEMM"). bf16 stands for fp16 as well.
struct GemmResidualTable {
  Precision precision = Precision::kBf16;
  std::optional<GemmPass> pass = {};  // none: measured as forward, used for all three
  bool is_grouped = false;
  std::vector<GemmResidual> shapes = {};  // never empty; by rising m
  // Least and greatest of each size, and the mean ratio: IndexShapes().
  GemmResidual low = {};
  GemmResidual high = {};
  double mean_log_time_ratio = 0;
  bool operator==(const GemmResidualTable&) const = default;
};

// Sorts `shapes` and fills in what is derived from them. Call it after the shapes changed.
void IndexShapes(GemmResidualTable& table);

// Fused attention, causal FLOPs counted: docs/cost_model.md ("Attention").
struct AttentionModel {
  double efficiency = 0.5;           // e_inf, share of the nominal peak
  double sequence_half = 600;        // s0, tokens
  double wave_half = 0.9;            // w0
  double flash2_ratio = 1.0;         // rate of FlashAttention-2 over the rate above
  double small_head_ratio = 0.85;    // rate at head sizes <= 96 over rate at 128
  double backward_time_ratio = 2.8;  // backward time over forward time, long sequences
  // Of the backward pass where it was measured apart; none: as forward.
  std::optional<double> backward_sequence_half = {};
  std::optional<double> backward_wave_half = {};
  bool operator==(const AttentionModel&) const = default;
};

// kRing: every rank's share of the message goes around, from neighbour to neighbour (ring
// attention).
enum class CollectiveKind { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kRing };

// A measured point of a collective: message bytes as in Collective, and the time.
struct CollectivePoint {
  Bytes bytes = {};
  Seconds time = Seconds(0);
  bool operator==(const CollectivePoint&) const = default;
};

// t = alpha + (x + sqrt(x * half)) / bandwidth, with x the bytes that one rank moves
// (2 (n-1)/n S for all-reduce, (n-1)/n S for the others): docs/cost_model.md ("Collectives").
// Where it was measured, the measured curve holds, and the formula beyond its ends.
struct CollectiveFit {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int ranks = 0;
  Seconds alpha = Seconds(0);
  BytesPerSecond bandwidth = {};
  Bytes half = {};
  std::vector<CollectivePoint> curve = {};  // by rising bytes; empty: the formula alone
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

// The node that the chip usually comes in; a default of ClusterSpec.
struct UsualNode {
  int device_count = 8;
  int nic_count = 8;
  double nic_gigabits_per_second = 200;
  LinkKind nic_kind = LinkKind::kInfiniband;
  bool is_published = false;  // false: the documented default node
  bool operator==(const UsualNode&) const = default;
};

// Facts and fitted constants of one accelerator, read from vendor_models/chips/<id>.json. Figures
// that a site may change (memory, links, power) are copied into NodePool and overridden there.
struct ChipSpec {
  std::string id = {};  // "<vendor>-<chip>", lower case
  std::string vendor = {};
  std::string name = {};
  std::vector<std::string> aliases = {};
  Confidence confidence = Confidence::kLow;
  Bytes memory_capacity = {};
  BytesPerSecond memory_bandwidth = {};           // nominal
  std::map<Precision, FlopsPerSecond> peak = {};  // nominal dense peaks
  FlopsPerSecond vector_peak = {};                // fp32 outside the matrix units
  double power_limit_watts = 0;                   // 0: not published
  int core_count = 0;                             // SMs, compute units, cube cores
  Bytes cache = {};                               // last level
  double cache_bandwidth_ratio = 2;               // rate from the cache / rate from memory
  double sustained_time_ratio = 1.2;              // training GEMM time / short-burst time
  double memory_bound_efficiency = 0.65;          // kernels of a layer, share of nominal bandwidth
  double stream_efficiency = 0.85;                // large copies and the optimizer
  Seconds memory_bound_fixed = Seconds(3e-6);     // per kernel
  double permutation_efficiency = 0.2;            // of tokens to experts, share of nominal
  BytesPerSecond host_link = {26e9};              // of a device and its host's memory, each way
  // What communication costs the computation that it runs beside, of the time that it is hidden.
  double overlap_slowdown = 0.1;
  GemmModel gemm = {};
  // What the chip's library chooses from, the one of the highest intensity first; never empty.
  std::vector<GemmTile> gemm_tiles = {std::begin(kTensorCoreTiles), std::end(kTensorCoreTiles)};
  std::vector<GemmResidualTable> gemm_residuals = {};
  AttentionModel attention = {};
  std::vector<CollectiveFit> collectives = {};  // inside one scale-up domain
  ScaleUpLink scale_up = {};
  std::optional<int> torus_axis_count = {};  // of its scale-up fabric, where that is a torus
  UsualNode usual_node = {};
  Bytes runtime_context = GiB(1.2);  // what the runtime takes before the first tensor
  // Weakest provenance of: peaks and memory; gemm; attention; collectives; memory-bound rates.
  Provenance figures_provenance = Provenance::kPublished;
  Provenance gemm_provenance = Provenance::kAssumed;
  Provenance attention_provenance = Provenance::kAssumed;
  Provenance collectives_provenance = Provenance::kAssumed;
  Provenance memory_bound_provenance = Provenance::kAssumed;
  bool operator==(const ChipSpec&) const = default;
};

}  // namespace meshwright
