#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// A layer, under a plan and a framework, is a list of kernels and a list of collectives. Device
// time, host time and stored activations are all derived from these lists, so that they cannot
// disagree about which norm, loss or attention ran.

enum class KernelKind { kMatmul, kAttention, kMemoryBound };

// A set of parts of a layer that a framework can recompute one by one. A kernel may belong to
// several.
using ModuleSet = unsigned;
inline constexpr ModuleSet kCoreAttention = 1;
inline constexpr ModuleSet kLayernorm = 2;
inline constexpr ModuleSet kMlp = 4;
inline constexpr ModuleSet kMoe = 8;
inline constexpr ModuleSet kMoeActivation = 16;
inline constexpr ModuleSet kMlaUpProjection = 32;
inline constexpr ModuleSet kSharedExperts = 64;

// C[m x n] = A[m x k] B[k x n], `count` times; the backward pass runs two of them.
struct MatmulShape {
  double m = 0;
  double n = 0;
  double k = 0;
  double count = 1;         // > 1: batched or grouped
  bool is_aligned = true;   // rows of 16 bytes, as the matrix units need
  bool is_grouped = false;  // one kernel for `count` experts
  bool operator==(const MatmulShape&) const = default;
};

// Attention of `batch` x `heads` independent heads.
struct AttentionShape {
  double batch = 0;
  double heads = 0;
  double head_dim = 0;  // (query/key size + value size) / 2
  double query_tokens = 0;
  double key_tokens = 0;  // a query attends to half of them on average, or to the window
  double window = 0;      // 0: none
  bool operator==(const AttentionShape&) const = default;
};

struct Kernel {
  std::string_view name = {};
  KernelKind kind = KernelKind::kMemoryBound;
  MatmulShape matmul = {};
  AttentionShape attention = {};
  Flops flops = {};             // forward
  Bytes bytes = {};             // memory traffic, forward
  Bytes backward_bytes = {};    // memory traffic, backward
  bool is_permutation = false;  // moves tokens to experts or back, which has a rate of its own
  int launches = 1;             // forward
  int backward_launches = 1;
  Bytes stored_bytes = {};  // output kept for the backward pass, of one micro-batch
  ModuleSet modules = 0;    // stored_bytes are dropped when one of these is recomputed
  bool is_expert = false;   // work of a routed expert; no collective of attention runs beside it
};

// The ranks that a collective runs over. Context parallelism has two groups: ranks that exchange
// heads for sequence, and ranks that keys and values go around.
enum class CommunicationGroup { kTensor, kContextExchange, kContext, kExpert, kExpertTensor };

// The tokens that one rank sends to experts on other ranks, a copy for each rank and, between
// nodes, a copy for each node.
struct TokenExchange {
  double bytes = 0;  // one copy of each token of the busiest rank
  int expert_count = 0;
  int experts_per_token = 0;
  // The router chooses groups_per_token of group_count groups; 0: among all experts.
  int group_count = 0;
  int groups_per_token = 0;
  bool uses_copy_engines = false;  // reaches the link's rate with few cores (HybridEP)
  bool operator==(const TokenExchange&) const = default;
};

// Collectives of one micro-batch; `bytes` is the whole message as nccl-tests counts it: the full
// tensor of an all-reduce, the larger side of a gather or scatter, the send buffer of an
// all-to-all.
struct Collective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  CommunicationGroup group = CommunicationGroup::kTensor;
  Bytes bytes = {};
  int forward_count = 0;
  int backward_count = 0;
  bool hidden_by_compute = false;  // the framework overlaps it
  int backward_beside_gemm = 0;    // part of backward_count that runs beside a GEMM of its block
  // For messages to experts that a dispatcher sends once a rank and once a node.
  std::optional<TokenExchange> exchange = {};
  bool beside_shared_experts = false;  // what hides it is the shared experts alone
  ModuleSet modules = 0;
};

struct LayerProgram {
  std::vector<Kernel> kernels = {};
  std::vector<Collective> collectives = {};
};

}  // namespace meshwright
