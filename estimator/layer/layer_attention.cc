#include <algorithm>
#include <cmath>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/attention.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// Bytes per score of attention without a fused kernel, forward and backward: scale, mask, softmax
// and dropout are separate passes, or one fused scale-mask-softmax (docs/cost_model/attention.md
// "Unfused attention").
struct ScoreTraffic {
  double forward;
  double backward;
  int launches;
  int backward_launches;
};
constexpr ScoreTraffic kEagerScores = {24, 20, 6, 5};
constexpr ScoreTraffic kFusedSoftmaxScores = {4, 6, 1, 1};
constexpr ScoreTraffic kDropoutScores = {5, 5, 1, 1};
// A soft cap divides, takes the hyperbolic tangent and multiplies, in passes of its own.
constexpr ScoreTraffic kSoftCapScores = {12, 14, 3, 3};
// Bytes kept of each score: the softmax output (2); with dropout also its mask (1) and its output
// (2) (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1). Eager softmax runs in fp32 and
// keeps its output (4) beside the 16-bit copy that the next product reads.
constexpr double kStoredScoreBytes = 2;
constexpr double kEagerStoredScoreBytes = 6;
constexpr double kStoredDropoutBytes = 3;
constexpr double kStoredSoftCapBytes = 2;  // the tangent
constexpr int kAlignedElements = 8;        // 16-bit elements
constexpr double kCopyBytes = 4;
constexpr double kRotaryFusedBytes = 4;
constexpr double kRotaryEagerBytes = 16;

// Elements per token of all heads, before tensor parallelism divides them.
struct HeadWidths {
  double queries = 0;
  double keys_and_values = 0;
  double output = 0;
};

bool IsFused(AttentionKernel kernel) {
  return kernel != AttentionKernel::kUnfused && kernel != AttentionKernel::kFusedSoftmax;
}

// Returns the heads and the sequence of one rank as the attention kernel sees them.
AttentionShape RankAttention(const LayerContext& c, const LayerKind& kind) {
  const ModelSpec& model = c.model;
  const LayerSharding& s = c.sharding;
  const double heads = static_cast<double>(kind.attention_head_count) / s.tensor_parallel;
  const double tokens = c.workload.sequence_length;
  // The mean counts both products: scores of keys, and weighted values.
  double head_dim = (kind.head_dim + kind.v_head_dim) / 2.0;
  double window = kind.sliding_window;
  if (model.mla.has_value()) {
    // Scores use the nope and rope dimensions, values their own; the mean counts both products.
    head_dim =
        (model.mla->qk_nope_head_dim + model.mla->qk_rope_head_dim + model.mla->v_head_dim) / 2.0;
    // A query attends to as many tokens as the indexer picks.
    if (model.mla->index_head_count > 0) window = model.mla->index_token_count;
  }
  // In a block of w tokens a token sees (w + 1) / 2 of them on average.
  if (kind.is_chunked && window < tokens) window = (window + 1) / 2;
  AttentionShape shape = {.batch = static_cast<double>(s.micro_batch_size),
                          .heads = heads,
                          .head_dim = head_dim,
                          .query_tokens = tokens,
                          .key_tokens = tokens,
                          .window = window};
  const double exchange = ExchangeRanks(s);
  shape.heads = heads / exchange;
  shape.query_tokens = tokens * exchange / s.context_parallel;  // zig-zag balances the causal mask
  return shape;
}

void AppendRotary(const LayerContext& c, double width, double n, LayerProgram& program) {
  const double bytes =
      (c.profile.rotary_is_fused ? kRotaryFusedBytes : kRotaryEagerBytes) * n * width;
  Kernel rotary = MemoryBound("rotary", bytes, bytes);
  rotary.launches = rotary.backward_launches = c.profile.rotary_is_fused ? 2 : 8;
  program.kernels.push_back(rotary);
}

void Add(const ScoreTraffic& more, ScoreTraffic& traffic) {
  traffic.forward += more.forward;
  traffic.backward += more.backward;
  traffic.launches += more.launches;
  traffic.backward_launches += more.backward_launches;
}

void AppendUnfusedScores(const LayerContext& c, const LayerKind& kind, LayerProgram& program) {
  const AttentionShape shape = RankAttention(c, kind);
  const double scores = shape.batch * shape.heads * shape.query_tokens * shape.key_tokens;
  const bool is_aligned = kind.head_dim % kAlignedElements == 0;
  const MatmulShape product = {.m = shape.query_tokens,
                               .n = shape.key_tokens,
                               .k = shape.head_dim,
                               .count = shape.batch * shape.heads,
                               .is_aligned = is_aligned};
  const MatmulShape values = {.m = shape.query_tokens,
                              .n = shape.head_dim,
                              .k = shape.key_tokens,
                              .count = shape.batch * shape.heads,
                              .is_aligned = is_aligned};
  const bool eager = c.workload.attention_kernel == AttentionKernel::kUnfused;
  ScoreTraffic traffic = eager ? kEagerScores : kFusedSoftmaxScores;
  double stored = eager ? kEagerStoredScoreBytes : kStoredScoreBytes;
  if (c.workload.dropout_ratio > 0) {
    Add(kDropoutScores, traffic);
    stored += kStoredDropoutBytes;
  }
  if (c.model.attention_soft_cap.has_value()) {
    Add(kSoftCapScores, traffic);
    stored += kStoredSoftCapBytes;
  }
  program.kernels.push_back(Matmul("scores", product, 0, kCoreAttention));
  Kernel softmax = MemoryBound("softmax", traffic.forward * scores, traffic.backward * scores);
  softmax.launches = traffic.launches;
  softmax.backward_launches = traffic.backward_launches;
  softmax.stored_bytes = RoundedBytes(stored * scores);
  softmax.modules = kCoreAttention;
  program.kernels.push_back(softmax);
  program.kernels.push_back(Matmul("weighted values", values, 0, kCoreAttention));
}

void AppendFusedAttention(const LayerContext& c, const LayerKind& kind, double n,
                          LayerProgram& program) {
  Kernel kernel = {.name = "attention", .kind = KernelKind::kAttention};
  kernel.attention = RankAttention(c, kind);
  kernel.flops = AttentionFlops(kernel.attention);
  kernel.backward_launches = 2;
  // The log-sum-exp of each row and head, in fp32.
  kernel.stored_bytes =
      RoundedBytes(4 * n * kind.attention_head_count / c.sharding.tensor_parallel);
  kernel.modules = kCoreAttention;
  program.kernels.push_back(kernel);
}

// Appends the exchange of heads for sequence (Ulysses), of keys and values (ring, gather), or of
// both (hybrid: a rank then has fewer heads of more tokens, so the same bytes go around the ring).
void AppendContextParallel(const LayerContext& c, double n, const HeadWidths& widths,
                           LayerProgram& program) {
  const int exchange = ExchangeRanks(c.sharding);
  const int ranks = c.sharding.context_parallel / exchange;
  const double t = c.sharding.tensor_parallel;
  if (exchange > 1) {
    // Q, K and V before attention, its output after it.
    const double bytes = 2 * n * (widths.queries + widths.keys_and_values + widths.output) / t;
    program.collectives.push_back({.kind = CollectiveKind::kAllToAll,
                                   .group = CommunicationGroup::kContextExchange,
                                   .bytes = RoundedBytes(bytes / 2),
                                   .forward_count = 2,
                                   .backward_count = 2});
    // The output before the second exchange is kept (TransformerEngine >= 2.8).
    Kernel copy = Kept("attention output copy", 2 * widths.output * n / t);
    copy.modules = kCoreAttention;
    program.kernels.push_back(copy);
  }
  if (ranks == 1) return;
  // K and V of every rank go to every rank, around the ring or in one gather; the backward pass
  // also returns their gradients.
  const bool is_gather = c.sharding.context_parallel_kind == ContextParallelKind::kAllGather;
  program.collectives.push_back(
      {.kind = is_gather ? CollectiveKind::kAllGather : CollectiveKind::kRing,
       .group = CommunicationGroup::kContext,
       .bytes = RoundedBytes(2 * n * widths.keys_and_values * ranks / t),
       .forward_count = 1,
       .backward_count = 2,
       .hidden_by_compute = !is_gather});
}

// Appends the copies of queries, keys and values to the kernel's layout and of its output back, one
// kernel each. Without a fused kernel the products read strided heads and only the output is
// copied.
void AppendHeadCopies(const LayerContext& c, double n, const HeadWidths& widths,
                      LayerProgram& program) {
  if (!c.profile.attention_copies_heads) return;
  const bool is_fused = IsFused(c.workload.attention_kernel);
  const double into = is_fused ? widths.queries + widths.keys_and_values : 0;
  const double bytes = kCopyBytes * n * (into + widths.output) / c.sharding.tensor_parallel;
  Kernel copies = MemoryBound("head copies", bytes, bytes);
  copies.launches = copies.backward_launches = is_fused ? 4 : 1;
  program.kernels.push_back(copies);
}

void AppendCore(const LayerContext& c, const LayerKind& kind, double n, const HeadWidths& widths,
                LayerProgram& program) {
  AppendHeadCopies(c, n, widths, program);
  const bool is_fused = IsFused(c.workload.attention_kernel);
  if (KeptInputBytes(c) < 2 && is_fused && ExchangeRanks(c.sharding) == 1) {
    // The projection keeps the output in 8 bits. The backward pass of a fused kernel needs it in
    // 16, and keeps its own copy in any case if heads are exchanged.
    Kernel output = Kept("attention output", 2 * n * widths.output / c.sharding.tensor_parallel);
    output.modules = kCoreAttention;
    program.kernels.push_back(output);
  }
  AppendContextParallel(c, n, widths, program);
  if (is_fused) {
    AppendFusedAttention(c, kind, n, program);
  } else {
    AppendUnfusedScores(c, kind, program);
  }
}

void AppendGroupedQuery(const LayerContext& c, const LayerKind& kind, LayerProgram& program) {
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double h = c.model.hidden_size;
  const double q = static_cast<double>(kind.attention_head_count) * kind.head_dim;
  // If there are fewer key-value heads than ranks, every rank has a copy.
  const double kv_heads = std::max<double>(kind.kv_head_count, t);
  const double u = std::min(kv_heads * kind.head_dim, q);
  const double output = static_cast<double>(kind.attention_head_count) * kind.v_head_dim;
  const double v = std::min(kv_heads * kind.v_head_dim, output);
  const double made = kind.values_are_keys ? 0 : v;  // by a projection of their own
  const double stored = 2 * n * (q + u + made) / t;
  AppendTensorParallel(c, h, 0, program);
  if (c.profile.qkv_is_one_gemm) {
    program.kernels.push_back(Matmul("qkv", {.m = n, .n = (q + u + made) / t, .k = h}, stored, 0));
  } else {
    program.kernels.push_back(Matmul("q", {.m = n, .n = q / t, .k = h}, 2 * n * q / t, 0));
    program.kernels.push_back(Matmul("k", {.m = n, .n = u / t, .k = h}, 2 * n * u / t, 0));
    if (made > 0) {
      program.kernels.push_back(Matmul("v", {.m = n, .n = v / t, .k = h}, 2 * n * v / t, 0));
    }
  }
  if (c.model.attention_output_gate) {
    program.kernels.push_back(
        Matmul("output gate", {.m = n, .n = output / t, .k = h}, 2 * n * output / t, 0));
  }
  if (c.model.qk_norm) AppendNorm(c, (q + u) / t, n, 2, program);
  if (c.model.norm == NormKind::kRmsnorm) AppendRotary(c, (q + u) / t, n, program);
  AppendCore(c, kind, n, {.queries = q, .keys_and_values = u + v, .output = output}, program);
  if (c.model.attention_output_gate) {
    program.kernels.push_back(MemoryBound("gated output", 6 * n * output / t, 10 * n * output / t));
  }
  Kernel projection = Matmul("projection", {.m = n, .n = h, .k = output / t},
                             KeptInputBytes(c) * n * output / t, 0);
  program.kernels.push_back(projection);
}

// Appends the indexer of sparse attention: its projections, which every tensor-parallel rank runs,
// the scores of all earlier tokens in 8 bits, of which causal masking leaves half, and the choice
// of the best ones (DeepSeek-V3.2-Exp, inference/model.py, class Indexer).
void AppendIndexer(const LayerContext& c, double n, LayerProgram& program) {
  const MlaSpec& mla = *c.model.mla;
  const double h = c.model.hidden_size;
  const double heads = mla.index_head_count;
  const double width = mla.index_head_dim;
  const double queries = mla.q_lora_rank > 0 ? mla.q_lora_rank : h;
  const double tokens = c.workload.sequence_length;
  program.kernels.push_back(
      Matmul("index q", {.m = n, .n = heads * width, .k = queries}, 2 * n * heads * width, 0));
  program.kernels.push_back(
      Matmul("index k", {.m = n, .n = width + heads, .k = h}, 2 * n * (width + heads), 0));
  Kernel scores = Matmul("index scores", {.m = n, .n = tokens / 2, .k = width, .count = heads}, 0,
                         kCoreAttention);
  program.kernels.push_back(scores);
  Kernel choice = MemoryBound("index choice", 4 * n * tokens / 2, 4 * n * tokens / 2);
  choice.modules = kCoreAttention;
  program.kernels.push_back(choice);
}

// Appends multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1). Each
// tensor-parallel rank compresses its own tokens, the results are gathered, and the up-projections
// are split by heads.
void AppendLatent(const LayerContext& c, const LayerKind& kind, LayerProgram& program) {
  const MlaSpec& mla = *c.model.mla;
  const double t = c.sharding.tensor_parallel;
  const double n = TokensPerRank(c);
  const double sharded = n / (c.sharding.sequence_parallel ? t : 1);
  const double h = c.model.hidden_size;
  const double a = kind.attention_head_count;
  const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  const double kv_up = mla.qk_nope_head_dim + mla.v_head_dim;
  const double rope = mla.qk_rope_head_dim;
  const double queries = mla.q_lora_rank > 0 ? mla.q_lora_rank : c.model.hidden_size;
  AppendTensorParallel(c, queries + mla.kv_lora_rank + rope, 0, program);
  if (mla.q_lora_rank > 0) {
    const double r = mla.q_lora_rank;
    program.kernels.push_back(Matmul("q down", {.m = sharded, .n = r, .k = h}, 2 * sharded * r, 0));
    AppendNorm(c, r, sharded, KeptInputBytes(c), program);
    program.kernels.push_back(
        Matmul("q up", {.m = n, .n = a * qk / t, .k = r}, 2 * n * a * qk / t, kMlaUpProjection));
  } else {
    program.kernels.push_back(
        Matmul("q", {.m = n, .n = a * qk / t, .k = h}, 2 * n * a * qk / t, 0));
  }
  const double r = mla.kv_lora_rank;
  program.kernels.push_back(
      Matmul("kv down", {.m = sharded, .n = r + rope, .k = h}, 2 * sharded * (r + rope), 0));
  AppendNorm(c, r, sharded, KeptInputBytes(c), program);
  // Keys are assembled with the shared rotary part: qk + v dimensions per head are kept.
  program.kernels.push_back(Matmul("kv up", {.m = n, .n = a * kv_up / t, .k = r},
                                   2 * n * a * (qk + mla.v_head_dim) / t, kMlaUpProjection));
  AppendRotary(c, a * 2 * qk / t, n, program);
  if (mla.index_head_count > 0) AppendIndexer(c, n, program);
  const double value = a * mla.v_head_dim;
  AppendCore(c, kind, n, {.queries = a * qk, .keys_and_values = a * qk + value, .output = value},
             program);
  program.kernels.push_back(
      Matmul("projection", {.m = n, .n = h, .k = value / t}, KeptInputBytes(c) * n * value / t, 0));
}

}  // namespace

void AppendAttention(const LayerContext& c, const LayerKind& kind, LayerProgram& program) {
  if (c.model.mla.has_value()) {
    AppendLatent(c, kind, program);
  } else {
    AppendGroupedQuery(c, kind, program);
  }
}

}  // namespace meshwright
