#include <algorithm>
#include <cmath>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/token_exchange.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// Launches of an expert that does not run as part of one grouped GEMM.
constexpr int kUngroupedLaunchesPerExpert = 3;

void AppendActivation(const LayerContext& c, double rows, double f, ModuleSet modules,
                      LayerProgram& program) {
  const bool gated = IsGated(c.model.mlp);
  const double bytes = (gated ? 6 : 4) * rows * f;
  const double unfused = c.profile.activation_is_fused ? 1 : 1.7;  // separate product and function
  Kernel kernel = MemoryBound("activation", bytes * unfused, 2 * bytes * unfused);
  kernel.launches = c.profile.activation_is_fused ? 1 : 3;
  kernel.backward_launches = c.profile.activation_is_fused ? 1 : 4;
  // The product is the next GEMM's input. A separate function keeps its output for the product too.
  const bool keeps_function = gated && !c.profile.activation_is_fused;
  kernel.stored_bytes = RoundedBytes((KeptInputBytes(c) + (keeps_function ? 2 : 0)) * rows * f);
  kernel.modules = modules;
  program.kernels.push_back(kernel);
}

// One or more two-layer feed-forward blocks that run together.
struct FeedForward {
  double rows = 0;          // tokens of one block
  double width = 0;         // share of f on this device
  double blocks = 1;        // experts
  bool is_grouped = false;  // one kernel for all of them
  ModuleSet modules = 0;
  ModuleSet activation_modules = 0;  // in addition to `modules`
};

void AppendFeedForward(const LayerContext& c, const FeedForward& block, LayerProgram& program) {
  const double rows = block.rows;
  const double f = block.width;
  const double groups = block.blocks;
  const ModuleSet modules = block.modules;
  const bool gated = IsGated(c.model.mlp);
  const double h = c.model.hidden_size;
  const double up = gated ? 2 * f : f;
  const double stored = 2 * rows * groups * up;
  if (!gated || c.profile.gate_up_is_one_gemm) {
    program.kernels.push_back(
        Matmul("up", {.m = rows, .n = up, .k = h, .count = groups, .is_grouped = block.is_grouped},
               stored, modules));
  } else {
    const MatmulShape half = {
        .m = rows, .n = f, .k = h, .count = groups, .is_grouped = block.is_grouped};
    program.kernels.push_back(Matmul("gate", half, stored / 2, modules));
    program.kernels.push_back(Matmul("up", half, stored / 2, modules));
  }
  AppendActivation(c, rows * groups, f, modules | block.activation_modules, program);
  program.kernels.push_back(
      Matmul("down", {.m = rows, .n = h, .k = f, .count = groups, .is_grouped = block.is_grouped},
             0, modules));
}

// Returns true if the dispatcher sends a token once to each rank, rather than once to each expert.
bool SendsOncePerRank(const LayerContext& c) {
  const MoeDispatcher dispatcher = c.workload.moe.dispatcher;
  return dispatcher == MoeDispatcher::kDeepep || dispatcher == MoeDispatcher::kHybridep;
}

// `bytes` is one copy of the tokens of the busiest rank.
TokenExchange ExchangeOf(const LayerContext& c, double bytes) {
  const MoeSpec& moe = *c.model.moe;
  return {.bytes = bytes,
          .expert_count = moe.expert_count,
          .experts_per_token = moe.experts_per_token,
          .group_count = moe.group_count,
          .groups_per_token = moe.groups_per_token,
          .uses_copy_engines = c.workload.moe.dispatcher == MoeDispatcher::kHybridep};
}

// The tokens of one rank: those that it has at all, those that it sends to experts, and the rows
// that its share of experts gets.
struct RoutedTokens {
  double held = 0;
  double sent = 0;
  double rows = 0;
};

// Returns the traffic of putting rows into the order of their experts, or back.
double PermutedBytes(const LayerContext& c, const RoutedTokens& tokens) {
  const double h = c.model.hidden_size;
  // Each expert's copy is made before the exchange and sorted after it.
  if (!SendsOncePerRank(c)) return 2 * h * (tokens.held + 2 * tokens.rows);
  // The exchange delivers one copy to each rank, which is read once for each of its experts there.
  const double reached = HoldersReached(ExchangeOf(c, 0), c.sharding.expert_parallel);
  return 2 * h * (tokens.sent * BusiestRank(c) * reached + tokens.rows);
}

void AppendRouting(const LayerContext& c, const RoutedTokens& tokens, LayerProgram& program) {
  const MoeSpec& moe = *c.model.moe;
  const double h = c.model.hidden_size;
  Kernel router =
      Matmul("router", {.m = tokens.held, .n = static_cast<double>(moe.expert_count), .k = h},
             4 * tokens.held * moe.expert_count, kMoe);
  // GEMM, softmax, top-k, counts, auxiliary loss.
  router.launches = router.backward_launches = c.profile.routing_launches / 2;
  program.kernels.push_back(router);
  // Rows are gathered into the order of their experts and back, and summed with their
  // probabilities.
  const double bytes = PermutedBytes(c, tokens);
  for (const char* name : {"permute", "unpermute"}) {
    Kernel permute = MemoryBound(name, bytes, bytes);
    permute.is_permutation = true;
    permute.launches = permute.backward_launches = c.profile.routing_launches / 4;
    permute.modules = kMoe;
    program.kernels.push_back(permute);
  }
}

// Fills in what the messages to the experts and those back have in common, and appends them.
void AppendMessages(const LayerContext& c, Collective message, LayerProgram& program) {
  const bool has_shared_experts = c.model.moe->shared_expert_ffn_hidden_size > 0;
  message.group = CommunicationGroup::kExpert;
  message.modules = kMoe;
  message.beside_shared_experts = c.workload.overlap.shared_expert && has_shared_experts &&
                                  c.workload.moe.dispatcher == MoeDispatcher::kAlltoall &&
                                  !c.sharding.hides_exchange;
  message.hidden_by_compute = c.sharding.hides_exchange || message.beside_shared_experts;
  program.collectives.push_back(message);
}

// Appends `count` messages with the tokens of a rank, to the experts' ranks or back, to each pass.
void AppendOneWay(const LayerContext& c, const RoutedTokens& tokens, double element_bytes,
                  int count, LayerProgram& program) {
  const double token_bytes = element_bytes * c.model.hidden_size;
  Collective message = {.kind = CollectiveKind::kAllToAll,
                        .bytes = RoundedBytes(token_bytes * tokens.rows),
                        .forward_count = count,
                        .backward_count = count};
  if (SendsOncePerRank(c)) {
    message.exchange = ExchangeOf(c, token_bytes * tokens.sent * BusiestRank(c));
  }
  AppendMessages(c, message, program);
}

// Appends messages that bring all tokens to all ranks and sum what the experts made of them.
void AppendGathers(const LayerContext& c, const RoutedTokens& tokens, double element_bytes,
                   LayerProgram& program) {
  const double all = c.model.hidden_size * tokens.sent * c.sharding.expert_parallel;
  for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    const double size = kind == CollectiveKind::kAllGather ? element_bytes : 2;
    AppendMessages(
        c,
        {.kind = kind, .bytes = RoundedBytes(size * all), .forward_count = 1, .backward_count = 1},
        program);
  }
}

// An FP8 element with its share of a scale for each 128 (DeepSeek-V3, arXiv 2412.19437, 3.3.2).
constexpr double kScaledFp8Bytes = 1 + 4.0 / 128;

// Appends the messages to the experts' ranks and back. Tokens travel in 8 bits only on their way to
// an expert; so do the gradients of its output.
void AppendExchange(const LayerContext& c, const RoutedTokens& tokens, LayerProgram& program) {
  const double h = c.model.hidden_size;
  if (c.sharding.expert_parallel > 1) {
    const bool is_fp8 = c.workload.moe.dispatch_dtype == DispatchDtype::kFp8;
    const double there = is_fp8 ? kScaledFp8Bytes : 2;
    if (c.workload.moe.dispatcher == MoeDispatcher::kAllgather) {
      AppendGathers(c, tokens, there, program);
    } else if (is_fp8) {
      AppendOneWay(c, tokens, there, 1, program);
      AppendOneWay(c, tokens, 2, 1, program);
    } else {
      AppendOneWay(c, tokens, 2, 2, program);
    }
  }
  const int x = c.sharding.expert_tensor_parallel;
  if (x > 1) {
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      program.collectives.push_back({.kind = kind,
                                     .group = CommunicationGroup::kExpertTensor,
                                     .bytes = RoundedBytes(2 * h * tokens.rows * x),
                                     .forward_count = 1,
                                     .backward_count = 1,
                                     .modules = kMoe});
    }
  }
}

}  // namespace

LayerProgram WithoutExperts(LayerProgram program) {
  std::erase_if(program.kernels, [](const Kernel& kernel) { return kernel.is_expert; });
  std::erase_if(program.collectives, [](const Collective& collective) {
    return collective.group == CommunicationGroup::kExpert ||
           collective.group == CommunicationGroup::kExpertTensor;
  });
  return program;
}

Flops ExpertFlops(const LayerProgram& program) {
  Flops flops;
  for (const Kernel& kernel : program.kernels) {
    if (kernel.is_expert) flops.count += kernel.flops.count;
  }
  return flops;
}

double BusiestRank(const LayerContext& c) {
  const double imbalance = c.model.moe->imbalance_ratio;
  const double capacity = c.workload.moe.capacity_factor;
  return capacity > 0 ? std::min(imbalance, capacity) : imbalance;
}

void AppendDenseMlp(const LayerContext& c, double ffn_hidden_size, ModuleSet modules,
                    LayerProgram& program) {
  AppendFeedForward(c,
                    {.rows = TokensPerRank(c),
                     .width = ffn_hidden_size / c.sharding.tensor_parallel,
                     .modules = modules},
                    program);
}

void AppendMoe(const LayerContext& c, LayerProgram& program) {
  const MoeSpec& moe = *c.model.moe;
  const double h = c.model.hidden_size;
  const int t = c.sharding.tensor_parallel;
  const int x = c.sharding.expert_tensor_parallel;
  // Each rank routes the tokens that it holds. Without sequence parallelism every tensor-parallel
  // rank holds all tokens, dispatches only its share and gathers the sum afterwards.
  const double tokens = TokensPerRank(c) / t;
  const double routed = tokens * moe.experts_per_token * BusiestRank(c);
  const double held = c.sharding.sequence_parallel ? tokens : TokensPerRank(c);
  const RoutedTokens all = {.held = held, .sent = tokens, .rows = routed};
  AppendRouting(c, all, program);
  AppendExchange(c, all, program);
  if (t > 1 && !c.sharding.sequence_parallel) {
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      program.collectives.push_back({.kind = kind,
                                     .bytes = RoundedBytes(2 * h * tokens * t),
                                     .forward_count = kind == CollectiveKind::kAllGather ? 1 : 0,
                                     .backward_count = kind == CollectiveKind::kAllGather ? 0 : 1,
                                     .modules = kMoe});
    }
  }
  const double local_experts = static_cast<double>(moe.expert_count) / c.sharding.expert_parallel;
  Kernel input = Kept("expert input", KeptInputBytes(c) * h * routed * x);
  input.modules = kMoe;
  program.kernels.push_back(input);
  const std::size_t first_expert_kernel = program.kernels.size();
  AppendFeedForward(c,
                    {.rows = routed * x / local_experts,
                     .width = static_cast<double>(moe.expert_ffn_hidden_size) / x,
                     .blocks = local_experts,
                     .is_grouped = c.workload.grouped_gemm,
                     .modules = kMoe,
                     .activation_modules = kMoeActivation},
                    program);
  const int launches = c.workload.grouped_gemm ? 1 : static_cast<int>(local_experts);
  for (std::size_t i = first_expert_kernel; i < program.kernels.size(); ++i) {
    program.kernels[i].is_expert = true;
    program.kernels[i].launches *= launches;
    program.kernels[i].backward_launches *= launches;
  }
  if (!c.workload.grouped_gemm) {
    program.kernels[first_expert_kernel].launches += kUngroupedLaunchesPerExpert * launches;
  }
  if (moe.shared_expert_ffn_hidden_size > 0) {
    // The shared experts are a dense block, split by tensor parallelism.
    const ModuleSet modules = kMoe | kSharedExperts;
    AppendTensorParallel(c, h, modules, program);
    AppendDenseMlp(c, moe.shared_expert_ffn_hidden_size, modules, program);
  }
}

}  // namespace meshwright
