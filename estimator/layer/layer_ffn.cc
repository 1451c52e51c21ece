#include <algorithm>
#include <cmath>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
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
  const bool gated = c.model.mlp != MlpKind::kGelu;
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
  const bool gated = c.model.mlp != MlpKind::kGelu;
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

void AppendRouting(const LayerContext& c, double tokens, double routed, LayerProgram& program) {
  const MoeSpec& moe = *c.model.moe;
  const double h = c.model.hidden_size;
  Kernel router =
      Matmul("router", {.m = tokens, .n = static_cast<double>(moe.expert_count), .k = h},
             4 * tokens * moe.expert_count, kMoe);
  router.launches = 6;  // GEMM, softmax, top-k, counts, auxiliary loss
  router.backward_launches = 6;
  program.kernels.push_back(router);
  // Rows are gathered into the order of their experts and back, and summed with their
  // probabilities.
  const double bytes = 2 * h * (tokens + 2 * routed);
  for (const char* name : {"permute", "unpermute"}) {
    Kernel permute = MemoryBound(name, bytes, bytes);
    permute.is_permutation = true;
    permute.launches = permute.backward_launches = 3;
    permute.modules = kMoe;
    program.kernels.push_back(permute);
  }
}

// Appends the messages to the experts' ranks and back.
void AppendExchange(const LayerContext& c, double routed, LayerProgram& program) {
  const double h = c.model.hidden_size;
  if (c.sharding.expert_parallel > 1) {
    program.collectives.push_back({.kind = CollectiveKind::kAllToAll,
                                   .group = CommunicationGroup::kExpert,
                                   .bytes = RoundedBytes(2 * h * routed),
                                   .forward_count = 2,
                                   .backward_count = 2,
                                   .modules = kMoe});
  }
  const int x = c.sharding.expert_tensor_parallel;
  if (x > 1) {
    for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
      program.collectives.push_back({.kind = kind,
                                     .group = CommunicationGroup::kExpertTensor,
                                     .bytes = RoundedBytes(2 * h * routed * x),
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
  const double routed = tokens * moe.experts_per_token * moe.imbalance_ratio;
  const double held = c.sharding.sequence_parallel ? tokens : TokensPerRank(c);
  AppendRouting(c, held, routed, program);
  AppendExchange(c, routed, program);
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
