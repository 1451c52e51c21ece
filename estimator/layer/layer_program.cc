#include "estimator/layer/layer_program.h"

#include <algorithm>
#include <cmath>

#include "estimator/layer/parameters.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_parameters.h"

namespace meshwright {
namespace {

// Bytes per element of one norm. A fused norm reads and writes 16-bit values; eager RMSNorm runs as
// seven fp32 kernels (twelve in the backward pass) and keeps its fp32 intermediate
// (docs/cost_model/kernels.md "Memory-bound operators").
constexpr double kFusedNormBytes = 4;
constexpr double kUnfusedNormBytes = 36;
constexpr double kUnfusedNormBackwardBytes = 96;
constexpr int kUnfusedNormLaunches = 7;
constexpr int kUnfusedNormBackwardLaunches = 12;
constexpr double kUnfusedNormExtraStoredBytes = 6;

// Number of weight tensors of a layer whose gradients are accumulated one by one: four matrices and
// two norms.
constexpr int kAccumulatedTensors = 6;

struct ModuleName {
  std::string_view name;
  ModuleSet module;
};
constexpr ModuleName kModules[] = {
    {"core_attn", kCoreAttention},
    {"layernorm", kLayernorm},
    {"mlp", kMlp},
    {"moe", kMoe},
    {"moe_act", kMoeActivation},
    {"mla_up_proj", kMlaUpProjection},
    {"shared_experts", kSharedExperts},
};

// Returns the tokens that one rank holds outside the tensor-parallel regions.
double ShardedTokens(const LayerContext& c) {
  return TokensPerRank(c) / (c.sharding.sequence_parallel ? c.sharding.tensor_parallel : 1);
}

// Appends the addition of a branch's output to the residual stream, which reads two tensors and
// writes one; the backward pass adds the gradients of both branches. Dropout also writes its mask,
// and in the backward pass reads a gradient and the mask and writes a gradient.
void AppendResidual(const LayerContext& c, LayerProgram& program) {
  const double elements = ShardedTokens(c) * c.model.hidden_size;
  const bool drops = c.workload.dropout_ratio > 0;
  Kernel add = MemoryBound("residual", (drops ? 7 : 6) * elements, (drops ? 11 : 6) * elements);
  if (drops) add.stored_bytes = RoundedBytes(elements);  // the mask
  program.kernels.push_back(add);
}

void AppendMixer(const LayerContext& c, TokenMixer mixer, const LayerKind& kind,
                 LayerProgram& program) {
  switch (mixer) {
    case TokenMixer::kAttention:
      return AppendAttention(c, kind, program);
    case TokenMixer::kLinearAttention:
      return AppendLinearAttention(c, program);
    case TokenMixer::kStateSpace:
      return AppendStateSpace(c, program);
    case TokenMixer::kAttentionAndStateSpace:
      AppendAttention(c, kind, program);
      return AppendStateSpace(c, program);
    case TokenMixer::kNone:
      return;
  }
}

// Appends the norms that the model has around what `append` appends, and the addition to the
// residual stream. `kept_bytes` is the size of one element of the block's input as it is kept.
template <typename Append>
void AppendBlock(const LayerContext& c, double kept_bytes, LayerProgram& program,
                 const Append& append) {
  const double elements = ShardedTokens(c) * c.model.hidden_size;
  // The norm keeps its input for its backward pass.
  program.kernels.push_back(Kept("layer input", 2 * elements));
  if (c.model.pre_norms) {
    AppendNorm(c, c.model.hidden_size, ShardedTokens(c), kept_bytes, program);
  }
  append();
  if (c.model.post_norms) AppendNorm(c, c.model.hidden_size, ShardedTokens(c), 2, program);
  AppendResidual(c, program);
}

bool KeepsGatheredInput(const LayerContext& c) {
  return !c.profile.sequence_parallel_regathers_input ||
         (c.profile.keeps_gathered_input_without_pipeline && !c.sharding.is_pipelined);
}

// Appends the column sums of the gradients of the outputs of linear layers with a bias (q + 2u, h,
// f, h wide), one kernel each. Biases of experts have no kernel of their own here.
void AppendBiasGradients(const LayerContext& c, const LayerKind& kind, LayerProgram& program) {
  if (c.profile.bias_gradient_is_fused || BiasesOf(c.model) == LinearBiases::kNone) return;
  const double t = c.sharding.tensor_parallel;
  const double whole = ShardedTokens(c) * c.model.hidden_size;
  const double heads = kind.attention_head_count + 2 * std::max<double>(kind.kv_head_count, t);
  const bool is_dense = kind.feed_forward == FeedForwardKind::kDense;
  double elements = 0;
  int sums = 0;
  const auto add = [&](bool has, double width) {
    if (!has) return;
    elements += width;
    ++sums;
  };
  add(HasQkvBias(c.model), TokensPerRank(c) * heads * kind.head_dim / t);
  add(HasAttentionOutputBias(c.model), whole);
  add(HasFeedForwardBias(c.model) && is_dense, TokensPerRank(c) * kind.ffn_hidden_size / t);
  add(HasFeedForwardBias(c.model) && is_dense, whole);
  Kernel kernel = MemoryBound("bias gradients", 0, 2 * elements);
  kernel.launches = 0;
  kernel.backward_launches = sums;
  program.kernels.push_back(kernel);
}

// Appends the addition of the gradients of `tensors` weights, `parameters` on this rank, to their
// accumulators: it reads both and writes one.
void AppendGradientAccumulation(const LayerContext& c, double parameters, int tensors,
                                LayerProgram& program) {
  if (c.profile.gradient_accumulation_is_fused) return;
  const double accumulator = c.workload.gradient_dtype == GradientDtype::kFp32 ? 4 : 2;
  Kernel add = MemoryBound("gradient accumulation", 0, (2 + 2 * accumulator) * parameters);
  add.launches = 0;
  add.backward_launches = tensors;
  program.kernels.push_back(add);
}

// Appends a quotient, a hyperbolic tangent and a product over the 16-bit logits: each reads and
// writes them, and the tangent's backward pass reads its output too (transformers,
// models/gemma2/modeling_gemma2.py; Megatron-Bridge, models/gemma/gemma2_provider.py).
void AppendOutputSoftCap(double logits, LayerProgram& program) {
  Kernel cap = MemoryBound("logit soft cap", 12 * logits, 14 * logits);
  cap.launches = cap.backward_launches = 3;
  program.kernels.push_back(cap);
}

double AccumulatedVocabulary(const LayerContext& c) {
  const int t = c.sharding.tensor_parallel;
  return PaddedVocabulary(c.model, t) * c.model.hidden_size / t / c.sharding.gradient_shards;
}

}  // namespace

double TokensPerRank(const LayerContext& c) {
  return static_cast<double>(c.sharding.micro_batch_size) * c.workload.sequence_length /
         c.sharding.context_parallel;
}

double KeptInputBytes(const LayerContext& c) {
  return c.workload.precision == Precision::kFp8 && c.profile.fp8_inputs_are_kept ? 1 : 2;
}

double PaddedVocabulary(const ModelSpec& model, int tensor_parallel) {
  const double unit = 128.0 * tensor_parallel;
  return std::ceil(model.vocab_size / unit) * unit;
}

ModuleSet ModuleOf(std::string_view name) {
  const auto* row = std::find_if(std::begin(kModules), std::end(kModules),
                                 [&](const ModuleName& m) { return m.name == name; });
  return row == std::end(kModules) ? 0 : row->module;
}

ModuleSet ModulesOf(std::span<const std::string> names) {
  ModuleSet set = 0;
  for (const std::string& name : names) set |= ModuleOf(name);
  return set;
}

std::string AllowedModules() {
  std::string words;
  for (const ModuleName& row : kModules) {
    if (!words.empty()) words += ", ";
    words += row.name;
  }
  return words;
}

Kernel Matmul(std::string_view name, const MatmulShape& shape, double stored_bytes,
              ModuleSet modules) {
  return {.name = name,
          .kind = KernelKind::kMatmul,
          .matmul = shape,
          .flops = {2 * shape.m * shape.n * shape.k * shape.count},
          .launches = 1,
          .backward_launches = 2,
          .stored_bytes = RoundedBytes(stored_bytes),
          .modules = modules};
}

Kernel MemoryBound(std::string_view name, double bytes, double backward_bytes) {
  return {.name = name,
          .kind = KernelKind::kMemoryBound,
          .bytes = RoundedBytes(bytes),
          .backward_bytes = RoundedBytes(backward_bytes)};
}

Kernel Kept(std::string_view name, double stored_bytes) {
  return {.name = name,
          .launches = 0,
          .backward_launches = 0,
          .stored_bytes = RoundedBytes(stored_bytes)};
}

void AppendNorm(const LayerContext& c, double width, double tokens, double kept_bytes,
                LayerProgram& program) {
  const double elements = tokens * width;
  const bool fused = c.workload.norm_kernel == KernelFusion::kFused;
  Kernel norm = MemoryBound("norm", (fused ? kFusedNormBytes : kUnfusedNormBytes) * elements,
                            (fused ? 2 * kFusedNormBytes : kUnfusedNormBackwardBytes) * elements);
  norm.launches = fused ? 1 : kUnfusedNormLaunches;
  norm.backward_launches = fused ? 1 : kUnfusedNormBackwardLaunches;
  // The output of the norm is the next GEMM's input; recomputing the norm drops it.
  norm.stored_bytes =
      RoundedBytes((kept_bytes + (fused ? 0 : kUnfusedNormExtraStoredBytes)) * elements);
  norm.modules = kLayernorm;
  program.kernels.push_back(norm);
}

// Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2. With sequence parallelism there is a
// gather before and a scatter after the block; the backward pass has the reverse and gathers the
// input once more unless the framework kept it. Without, there is one all-reduce each way.
void AppendTensorParallel(const LayerContext& c, double input_width, ModuleSet modules,
                          LayerProgram& program) {
  if (c.sharding.tensor_parallel == 1) return;
  const Bytes input = RoundedBytes(2 * TokensPerRank(c) * input_width);
  const Bytes output = RoundedBytes(2 * TokensPerRank(c) * c.model.hidden_size);
  const int beside = c.profile.hides_backward_tensor_parallel ? 1 : 0;
  const bool is_overlapped =
      c.workload.overlap.tensor_parallel &&
      (c.sharding.sequence_parallel || !c.profile.overlaps_only_sequence_parallel);
  const auto append = [&](CollectiveKind kind, Bytes bytes, int forward, int backward, int hidden) {
    program.collectives.push_back({.kind = kind,
                                   .bytes = bytes,
                                   .forward_count = forward,
                                   .backward_count = backward,
                                   .hidden_by_compute = is_overlapped,
                                   .backward_beside_gemm = hidden,
                                   .modules = modules});
  };
  if (!c.sharding.sequence_parallel) {
    const double ratio = c.profile.tensor_parallel_bytes_ratio;
    append(CollectiveKind::kAllReduce, Scale(output, ratio), 1, 0, 0);
    append(CollectiveKind::kAllReduce, Scale(input, ratio), 0, 1, beside);
    return;
  }
  const int regather = KeepsGatheredInput(c) ? 0 : 1;
  append(CollectiveKind::kAllGather, input, 1, regather, std::min(beside, regather));
  append(CollectiveKind::kReduceScatter, input, 0, 1, beside);
  append(CollectiveKind::kReduceScatter, output, 1, 0, 0);
  append(CollectiveKind::kAllGather, output, 0, 1, 0);
  if (regather == 0) {
    // The rank's own share is kept in any case.
    Kernel gathered = Kept("gathered input",
                           KeptInputBytes(c) * (TokensPerRank(c) - ShardedTokens(c)) * input_width);
    gathered.modules = modules;
    program.kernels.push_back(gathered);
  }
}

Bytes LayerInputBytes(const LayerContext& c) {
  return RoundedBytes(2 * ShardedTokens(c) * c.model.hidden_size);
}

LayerProgram BuildLayer(const LayerContext& c, const LayerKind& kind) {
  LayerProgram program;
  program.kernels.reserve(24);
  program.collectives.reserve(16);
  if (kind.mixer != TokenMixer::kNone) {
    AppendBlock(c, KeptInputBytes(c), program, [&] { AppendMixer(c, kind.mixer, kind, program); });
  }
  const bool is_moe = kind.feed_forward == FeedForwardKind::kExperts;
  if (kind.feed_forward != FeedForwardKind::kNone) {
    // A router reads 16 bits.
    AppendBlock(c, is_moe ? 2 : KeptInputBytes(c), program, [&] {
      if (is_moe) {
        AppendMoe(c, program);
      } else {
        AppendTensorParallel(c, c.model.hidden_size, kMlp, program);
        AppendDenseMlp(c, kind.ffn_hidden_size, kMlp, program);
      }
    });
  }
  if (c.profile.extra_stored_bytes_per_hidden > 0) {
    const double sharded = TokensPerRank(c) * c.model.hidden_size / c.sharding.tensor_parallel;
    program.kernels.push_back(
        Kept("framework copies", c.profile.extra_stored_bytes_per_hidden * sharded));
  }
  AppendBiasGradients(c, kind, program);
  const LayerParameters layer = ParametersOf(c.model, kind);
  const double parameters =
      DenseParameters(layer, c.sharding.tensor_parallel) / c.sharding.gradient_shards +
      ExpertParameters(layer, c.sharding.expert_parallel, c.sharding.expert_tensor_parallel) /
          c.sharding.expert_gradient_shards;
  AppendGradientAccumulation(c, parameters, kAccumulatedTensors, program);
  return program;
}

LayerProgram BuildEmbedding(const LayerContext& c) {
  LayerProgram program;
  const double elements = TokensPerRank(c) * c.model.hidden_size;
  // It gathers rows (reads and writes 2 bytes); the backward pass adds into fp32 rows.
  program.kernels.push_back(MemoryBound("embedding", 4 * elements, 10 * elements));
  AppendGradientAccumulation(c, AccumulatedVocabulary(c), 1, program);
  if (c.sharding.tensor_parallel > 1) {
    const bool scatter = c.sharding.sequence_parallel;
    program.collectives.push_back(
        {.kind = scatter ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
         .bytes = RoundedBytes(2 * elements),
         .forward_count = 1,
         .backward_count = scatter ? 1 : 0});
  }
  return program;
}

LayerProgram BuildHead(const LayerContext& c) {
  LayerProgram program;
  const int t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double h = c.model.hidden_size;
  const double vocabulary = PaddedVocabulary(c.model, t);
  AppendNorm(c, h, ShardedTokens(c), 2, program);
  program.kernels.push_back(Matmul("output layer", {.m = n, .n = vocabulary / t, .k = h}, 0, 0));
  if (c.model.output_soft_cap.has_value()) AppendOutputSoftCap(n * vocabulary / t, program);
  const bool fused = c.workload.cross_entropy_kernel == KernelFusion::kFused;
  const double traffic =
      fused ? c.profile.logit_traffic_bytes_fused : c.profile.logit_traffic_bytes_unfused;
  const double logits = n * vocabulary / (c.profile.logits_are_gathered ? 1 : t);
  // A third of the loss's traffic is the gradient of the logits.
  Kernel loss = MemoryBound("loss", traffic * logits * 2 / 3, traffic * logits / 3);
  loss.launches = fused ? 2 : 8;
  loss.backward_launches = fused ? 1 : 4;
  program.kernels.push_back(loss);
  AppendGradientAccumulation(c, AccumulatedVocabulary(c), 1, program);
  if (t > 1) {
    if (c.sharding.sequence_parallel) {
      program.collectives.push_back({.kind = CollectiveKind::kAllGather,
                                     .bytes = RoundedBytes(2 * n * h),
                                     .forward_count = 1,
                                     .backward_count = 1});
    }
    program.collectives.push_back({.kind = c.sharding.sequence_parallel
                                               ? CollectiveKind::kReduceScatter
                                               : CollectiveKind::kAllReduce,
                                   .bytes = RoundedBytes(2 * n * h),
                                   .backward_count = 1});
    // Vocabulary-parallel cross entropy reduces the maximum, the sum and the target logit of each
    // token, in fp32.
    program.collectives.push_back(
        {.kind = CollectiveKind::kAllReduce, .bytes = RoundedBytes(4 * n), .forward_count = 3});
    if (c.profile.logits_are_gathered) {
      program.collectives.push_back({.kind = CollectiveKind::kAllGather,
                                     .bytes = RoundedBytes(2 * n * vocabulary),
                                     .forward_count = 1,
                                     .backward_count = 0});
    }
  }
  return program;
}

}  // namespace meshwright
