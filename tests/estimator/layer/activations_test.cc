#include <gtest/gtest.h>

#include <ostream>

#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns the bytes that one layer keeps of one micro-batch, from its list of kernels.
double StoredBy(const OwnedProblem& problem, const LayerSharding& sharding, bool is_moe) {
  double sum = 0;
  for (const Kernel& kernel : LayerOf(problem, sharding, is_moe).kernels) {
    sum += static_cast<double>(kernel.stored_bytes.count);
  }
  return sum;
}

// The line of stored activations of the whole model on one pipeline stage.
double Activations(const OwnedProblem& problem, const ParallelPlan& plan) {
  return Line(FullOf(problem, plan).memory_breakdown, MemoryKind::kActivations);
}

// All cases have n = 4096 tokens per rank: one sequence of PlainProblem.
constexpr double kTokens = 4096;

struct DenseCase {
  const char* name;
  int t;
  bool sequence_parallel;
  double expected;  // bytes per token
};

void PrintTo(const DenseCase& c, std::ostream* out) { *out << c.name; }

// Llama-2-70B: h = q = 8192, u = 1024, f = 28672, a = 64. Formula 2 (docs/cost_model/activations.md
// "Stored activations"; Korthikanti et al. 2022, restated for flash attention, GQA, SwiGLU,
// RMSNorm): 8h + [2(q + 2u) + 2q + 6f + 4a] / t, and the 8h divided by t too with sequence
// parallelism.
constexpr double kOutside = 8 * 8192;
constexpr double kInside = 2 * (8192 + 2 * 1024) + 2 * 8192 + 6 * 28672 + 4 * 64;
constexpr DenseCase kDenseCases[] = {
    {"Whole", 1, false, kOutside + kInside},
    {"Tensor8", 8, false, kOutside + kInside / 8},
    {"Tensor8Sequence", 8, true, (kOutside + kInside) / 8},
};

class DenseActivationsTest : public testing::TestWithParam<DenseCase> {};

TEST_P(DenseActivationsTest, Formula2) {
  const DenseCase& c = GetParam();
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  const LayerSharding sharding = {.tensor_parallel = c.t, .sequence_parallel = c.sequence_parallel};
  EXPECT_DOUBLE_EQ(StoredBy(problem, sharding, false), kTokens * c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, DenseActivationsTest, testing::ValuesIn(kDenseCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Activations, ContextParallelDividesTokens) {
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  LayerSharding sharding = {.context_parallel = 4};
  EXPECT_DOUBLE_EQ(StoredBy(problem, sharding, false), kTokens / 4 * (kOutside + kInside));
  // The exchange of heads keeps the attention output once more: + 2 q n / t.
  sharding.context_parallel_kind = ContextParallelKind::kUlysses;
  EXPECT_DOUBLE_EQ(StoredBy(problem, sharding, false),
                   kTokens / 4 * (kOutside + kInside + 2 * 8192));
  // It goes with the attention that is recomputed.
  double kept = 0;
  for (const Kernel& kernel : LayerOf(problem, sharding).kernels) {
    const bool is_dropped = (kernel.modules & kCoreAttention) != 0;
    kept += is_dropped ? 0 : static_cast<double>(kernel.stored_bytes.count);
  }
  EXPECT_DOUBLE_EQ(kept, kTokens / 4 * (kOutside + kInside - 4 * 64));
}

// Hybrid context parallelism, 16 ranks on two nodes: the 8 of a node exchange heads, twice 8 (2q +
// 2u) n bytes per pass, and keys and values go around 2 nodes: 2 n 2u x 2. It is faster than a ring
// of 16 if the link between nodes is the limit, because less crosses it.
TEST(ContextParallel, Hybrid) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 2);
  problem.workload.sequence_length = 65536;
  const LayerSharding hybrid = {.context_parallel = 16,
                                .context_parallel_kind = ContextParallelKind::kHybrid,
                                .hybrid_exchange_ranks = 8};
  const double n = 65536.0 / 16;
  int seen = 0;
  for (const Collective& c : LayerOf(problem, hybrid).collectives) {
    if (c.group == CommunicationGroup::kContextExchange) {
      EXPECT_EQ(c.kind, CollectiveKind::kAllToAll);
      EXPECT_DOUBLE_EQ(static_cast<double>(c.bytes.count), n * (2 * 8192 + 2 * 1024));
      ++seen;
    } else if (c.group == CommunicationGroup::kContext) {
      EXPECT_EQ(c.kind, CollectiveKind::kRing);
      EXPECT_DOUBLE_EQ(static_cast<double>(c.bytes.count), 2 * n * 2 * 1024 * 2);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2);
  problem.cluster.pools.front().inter_node.nic_bandwidth = {1e9};
  const auto time = [&](ContextParallelKind kind) {
    return Line(FullOf(problem, {.context_parallel = 16, .context_parallel_kind = kind}),
                TimeCause::kContextParallel);
  };
  EXPECT_LT(time(ContextParallelKind::kHybrid), time(ContextParallelKind::kRing));
  EXPECT_LT(time(ContextParallelKind::kHybrid), time(ContextParallelKind::kUlysses));
}

// Megatron of 2022: GELU, layer norm, dropout, scores in memory.
OwnedProblem UnfusedProblem() {
  OwnedProblem problem = PlainProblem(Gpt3_175b(), 1);
  problem.workload.sequence_length = 2048;
  problem.workload.attention_kernel = AttentionKernel::kFusedSoftmax;
  problem.workload.dropout_ratio = 0.1;
  return problem;
}

// Korthikanti et al. 2022 (arXiv 2205.05198), equation 2: s b h (10 + 24/t + 5 a s / (h t)), and
// equation 4 with sequence parallelism: s b h / t (34 + 5 a s / h). GPT-3 175B, s = 2048, b = 1:
// a s / h = 96 * 2048 / 12288 = 16, so 5 a s / h = 80.
TEST(Activations, UnfusedAttentionOf2022) {
  const OwnedProblem problem = UnfusedProblem();
  const double sbh = 2048.0 * 12288;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false),
                   sbh * (10 + 24.0 / 8 + 80.0 / 8));
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8, .sequence_parallel = true}, false),
                   sbh / 8 * (34 + 80));
}

// Equation 6 of the same paper: selective recomputation leaves 34 s b h / t.
TEST(Activations, SelectiveDropsCoreAttention) {
  const OwnedProblem problem = UnfusedProblem();
  const ParallelPlan plan = {.tensor_parallel = 8,
                             .sequence_parallel = true,
                             .recompute = {.granularity = RecomputeGranularity::kSelective}};
  EXPECT_DOUBLE_EQ(Activations(problem, plan), 96 * 2048.0 * 12288 / 8 * 34);
}

struct ModuleCase {
  const char* name;
  double dropped;  // bytes per token and layer of Llama-2-70B, t = 1
};

void PrintTo(const ModuleCase& c, std::ostream* out) { *out << c.name; }

// The terms of formula 2 that belong to each module: log-sum-exp 4a; outputs of both norms 4h; the
// two outputs of the first linear layer and their product 6f.
constexpr ModuleCase kModuleCases[] = {
    {"core_attn", 4 * 64}, {"layernorm", 4 * 8192}, {"mlp", 6 * 28672}};

class ModuleRecomputeTest : public testing::TestWithParam<ModuleCase> {};

TEST_P(ModuleRecomputeTest, DropsItsTerms) {
  const ModuleCase& c = GetParam();
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  const ParallelPlan plan = {
      .recompute = {.granularity = RecomputeGranularity::kSelective, .modules = {c.name}}};
  EXPECT_DOUBLE_EQ(Activations(problem, plan), 80 * kTokens * (kOutside + kInside - c.dropped));
}

INSTANTIATE_TEST_SUITE_P(All, ModuleRecomputeTest, testing::ValuesIn(kModuleCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Full recomputation keeps 2 h bytes per token of each recomputed layer, divided by t with sequence
// parallelism (formula 4): R = 30 of 80 layers.
TEST(Activations, FullRecomputeKeepsInputs) {
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  ParallelPlan plan = {.recompute = {.granularity = RecomputeGranularity::kFull}};
  EXPECT_DOUBLE_EQ(Activations(problem, plan), 80 * kTokens * 2 * 8192);
  plan.tensor_parallel = 8;
  EXPECT_DOUBLE_EQ(Activations(problem, plan), 80 * kTokens * 2 * 8192);
  plan.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(Activations(problem, plan), 80 * kTokens * 2 * 8192 / 8);
  plan.recompute.layer_counts = {30};
  EXPECT_DOUBLE_EQ(Activations(problem, plan),
                   kTokens / 8 * (30 * 2 * 8192 + 50 * (kOutside + kInside)));
}

// 30 of 80 layers keep their input, the next 20 everything but the 6f of their MLP. Their working
// set is one whole layer, as if all of them recomputed fully.
TEST(Activations, LayersRecomputeFullyOrSelectivelyOrNot) {
  const OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  ParallelPlan plan = {.recompute = {.granularity = RecomputeGranularity::kFull,
                                     .layer_counts = {30},
                                     .modules = {"mlp"},
                                     .selective_layer_counts = {20}}};
  EXPECT_DOUBLE_EQ(Activations(problem, plan),
                   kTokens * (30 * 2 * 8192 + 20 * (kOutside + kInside - 6 * 28672) +
                              30 * (kOutside + kInside)));
  const auto transient = [&] {
    return Line(FullOf(problem, plan).memory_breakdown, MemoryKind::kTransient);
  };
  const double mixed = transient();
  plan.recompute.selective_layer_counts = {};
  EXPECT_DOUBLE_EQ(transient(), mixed);
}

// DeepSeek-V3's 3 dense layers come first: 2 recompute fully, so that the 5 selective layers are
// one dense layer and four with experts. Each saves as much as when every layer recomputes
// selectively.
TEST(Activations, SelectiveLayersFollowTheFullOnes) {
  const OwnedProblem problem = PlainProblem(DeepseekV3(), 1);
  const auto kept = [&](const RecomputePlan& recompute) {
    return Activations(problem, {.recompute = recompute});
  };
  const auto mixed = [&](int full, int selective) {
    return kept({.granularity = RecomputeGranularity::kFull,
                 .layer_counts = {full},
                 .modules = {"mlp"},
                 .selective_layer_counts = {selective}});
  };
  // Only dense layers have the module mlp: 6f = 6 x 18432 bytes per token and layer.
  const double dense = kTokens * 6 * 18432;
  EXPECT_DOUBLE_EQ(mixed(0, 0) - mixed(0, 2), 2 * dense);
  EXPECT_DOUBLE_EQ(mixed(2, 0) - mixed(2, 5), dense);
  EXPECT_DOUBLE_EQ(mixed(3, 0) - mixed(3, 5), 0);
}

// DeepSeek-V3, formula 3: a = 128, r_q = 1536, r_kv = 512, g = 128, g_r = 64, g_v = 128;
// K = 8, f_e = f_s = 2048, E = 256, h = 7168.
constexpr double kLatent =
    4 * 7168 + 4 * 1536 + 2 * (512 + 64) + 2 * 512 + 4 * 128 * (128 + 64) + 4 * 128 * 128 + 4 * 128;
double Experts(double imbalance) {
  return 4 * 7168 + 6 * 2048 + imbalance * 8 * (2 * 7168 + 6 * 2048) + 4 * 256;
}

TEST(Activations, LatentAttentionAndExperts) {
  OwnedProblem problem = PlainProblem(DeepseekV3(), 8);
  EXPECT_DOUBLE_EQ(StoredBy(problem, {}, true), kTokens * (kLatent + Experts(1)));
  // Expert parallelism moves tokens; it does not change the number of tokens on a rank.
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.expert_parallel = 64}, true),
                   kTokens * (kLatent + Experts(1)));
  // The busiest rank holds B times the routed tokens.
  problem.model.moe->imbalance_ratio = 1.5;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.expert_parallel = 64}, true),
                   kTokens * (kLatent + Experts(1.5)));
}

// A dense layer of the same model: f = 18432.
TEST(Activations, LatentAttentionAndDenseMlp) {
  const OwnedProblem problem = PlainProblem(DeepseekV3(), 8);
  EXPECT_DOUBLE_EQ(StoredBy(problem, {}, false), kTokens * (kLatent + 4 * 7168 + 6 * 18432));
}

// An eager norm keeps its fp32 intermediate and scale: + 6 bytes of each of the two norms'
// elements.
TEST(Activations, UnfusedNorm) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  problem.workload.norm_kernel = KernelFusion::kUnfused;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {}, false), kTokens * (kOutside + kInside + 2 * 6 * 8192));
}

// A gated activation that runs as two kernels keeps the function's output as well as the product: +
// 2 f / t.
TEST(Activations, UnfusedActivationKeepsItsFunction) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  problem.profile.activation_is_fused = false;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {}, false), kTokens * (kOutside + kInside + 2 * 28672));
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false),
                   kTokens * (kOutside + (kInside + 2 * 28672) / 8));
  // GELU has no product: nothing is kept twice.
  OwnedProblem gelu = UnfusedProblem();
  const double fused = StoredBy(gelu, {}, false);
  gelu.profile.activation_is_fused = false;
  EXPECT_DOUBLE_EQ(StoredBy(gelu, {}, false), fused);
}

struct ScoreCase {
  const char* name;
  AttentionKernel kernel;
  double dropout_ratio;
  double hidden_bytes;  // per element outside the tensor-parallel blocks
  double score_bytes;
};

void PrintTo(const ScoreCase& c, std::ostream* out) { *out << c.name; }

// UnfusedProblem again: s b h (10 + 24/t + B a s / (h t)), a s / h = 16. Of a score the 16-bit
// softmax output (2), with dropout its mask and output (1 + 2); an eager softmax keeps its fp32
// output too (4). Without dropout the masks of both residuals (2 x 1) are gone.
constexpr ScoreCase kScoreCases[] = {
    {"FusedSoftmax", AttentionKernel::kFusedSoftmax, 0, 8, 2},
    {"FusedSoftmaxDropout", AttentionKernel::kFusedSoftmax, 0.1, 10, 5},
    {"Eager", AttentionKernel::kUnfused, 0, 8, 6},
    {"EagerDropout", AttentionKernel::kUnfused, 0.1, 10, 9},
};

class ScoresTest : public testing::TestWithParam<ScoreCase> {};

TEST_P(ScoresTest, Kept) {
  const ScoreCase& c = GetParam();
  OwnedProblem problem = UnfusedProblem();
  problem.workload.attention_kernel = c.kernel;
  problem.workload.dropout_ratio = c.dropout_ratio;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false),
                   2048.0 * 12288 * (c.hidden_bytes + 24.0 / 8 + c.score_bytes * 16 / 8));
}

INSTANTIATE_TEST_SUITE_P(All, ScoresTest, testing::ValuesIn(kScoreCases),
                         [](const auto& test) { return std::string(test.param.name); });

// A framework's further copies are sharded with and without sequence parallelism: + 3 h / t.
TEST(Activations, CopiesOfAFramework) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  problem.profile.extra_stored_bytes_per_hidden = 3;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false),
                   kTokens * (kOutside + (kInside + 3 * 8192) / 8));
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8, .sequence_parallel = true}, false),
                   kTokens * (kOutside + kInside + 3 * 8192) / 8);
}

// Linear layers that keep their input in 8 bits halve what two norms (2h) and the gated product (f)
// keep; the attention output (q), which attention needs in 16 bits, is kept in both.
TEST(Activations, InputsInEightBits) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  problem.workload.precision = Precision::kFp8;
  const double sixteen = StoredBy(problem, {.tensor_parallel = 8}, false);
  problem.profile.fp8_inputs_are_kept = true;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false),
                   sixteen - kTokens * (2 * 8192 + (28672 - 8192) / 8.0));
  problem.workload.precision = Precision::kBf16;
  EXPECT_DOUBLE_EQ(StoredBy(problem, {.tensor_parallel = 8}, false), sixteen);
}

// An exchange of heads keeps 16 bits of it anyway, and products of separate kernels do not need it:
// then the projection's input is halved with the others.
TEST(Activations, AttentionOutputInEightBits) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  problem.workload.precision = Precision::kFp8;
  const LayerSharding exchange = {.tensor_parallel = 4,
                                  .context_parallel = 2,
                                  .context_parallel_kind = ContextParallelKind::kUlysses};
  const double exchanged = StoredBy(problem, exchange, false);
  problem.profile.fp8_inputs_are_kept = true;
  const double halved = 2 * 8192 + (28672 + 8192) / 4.0;
  EXPECT_DOUBLE_EQ(StoredBy(problem, exchange, false), exchanged - kTokens / 2 * halved);
  problem.workload.attention_kernel = AttentionKernel::kFusedSoftmax;
  const double kept = StoredBy(problem, {.tensor_parallel = 4}, false);
  problem.profile.fp8_inputs_are_kept = false;
  EXPECT_DOUBLE_EQ(kept, StoredBy(problem, {.tensor_parallel = 4}, false) - kTokens * halved);
}

struct GatheredCase {
  const char* name;
  bool regathers;
  bool keeps_without_pipeline;
  LayerSharding sharding;
  bool is_kept;
};

void PrintTo(const GatheredCase& c, std::ostream* out) { *out << c.name; }

constexpr LayerSharding kSequence8 = {.tensor_parallel = 8, .sequence_parallel = true};
constexpr LayerSharding kPipelined8 = {
    .tensor_parallel = 8, .sequence_parallel = true, .is_pipelined = true};
constexpr GatheredCase kGatheredCases[] = {
    {"Regathered", true, false, kSequence8, false},
    {"Kept", false, false, kSequence8, true},
    {"KeptWithPipeline", false, false, kPipelined8, true},
    {"KeptWithoutPipelineOnly", true, true, kSequence8, true},
    {"RegatheredWithPipeline", true, true, kPipelined8, false},
    {"NothingToGather", false, true, {.tensor_parallel = 8}, false},
    {"OneRank", false, true, {.sequence_parallel = true}, false},
};

class GatheredInputTest : public testing::TestWithParam<GatheredCase> {};

// A gathered input that is kept is not gathered again. Each of two blocks keeps 2 h (t - 1) / t
// bytes per token of the other ranks in addition to its own share, which formula 2 counts.
TEST_P(GatheredInputTest, KeptOrGatheredAgain) {
  const GatheredCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_70b(), 1);
  const double usual = StoredBy(problem, c.sharding, false);
  problem.profile.sequence_parallel_regathers_input = c.regathers;
  problem.profile.keeps_gathered_input_without_pipeline = c.keeps_without_pipeline;
  EXPECT_DOUBLE_EQ(StoredBy(problem, c.sharding, false),
                   usual + (c.is_kept ? kTokens * 2 * 2 * 8192 * 7 / 8 : 0));
  int gathers = 0;
  int forward = 0;
  for (const Collective& collective : LayerOf(problem, c.sharding).collectives) {
    if (collective.kind != CollectiveKind::kAllGather) continue;
    forward += collective.forward_count;
    gathers += collective.backward_count;
  }
  // In backward the scatter's reverse is one gather a block, and the input's is a second.
  const bool is_split = c.sharding.sequence_parallel && c.sharding.tensor_parallel > 1;
  EXPECT_EQ(forward, is_split ? 2 : 0);
  EXPECT_EQ(gathers, !is_split ? 0 : c.is_kept ? 2 : 4);
}

INSTANTIATE_TEST_SUITE_P(All, GatheredInputTest, testing::ValuesIn(kGatheredCases),
                         [](const auto& test) { return std::string(test.param.name); });

// A plan's pipeline decides: with one stage the gathered inputs of 80 layers are kept; with two of
// 40 layers, two micro-batches in flight on the first, only formula 2 is.
TEST(Activations, GatheredInputByPlan) {
  OwnedProblem problem = PlainProblem(Llama2_70b(), 2);
  problem.profile.keeps_gathered_input_without_pipeline = true;
  const auto first_stage = [&](int stages) {
    const ParallelPlan plan = {
        .tensor_parallel = 8, .sequence_parallel = true, .pipeline_parallel = stages};
    return Line(FullOf(problem, plan).stage_memory[0].breakdown, MemoryKind::kActivations);
  };
  const double formula2 = kTokens * (kOutside + kInside) / 8;
  EXPECT_DOUBLE_EQ(first_stage(1), 80 * (formula2 + kTokens * 2 * 2 * 8192 * 7 / 8));
  EXPECT_DOUBLE_EQ(first_stage(2), 2 * 40 * formula2);
}

// A block of experts gathers nothing: only attention's input is kept whole.
TEST(Activations, GatheredInputOfAttentionOnlyWithExperts) {
  OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 1);
  const double usual = StoredBy(problem, kSequence8, true);
  problem.profile.sequence_parallel_regathers_input = false;
  EXPECT_DOUBLE_EQ(StoredBy(problem, kSequence8, true), usual + kTokens * 2 * 4096 * 7 / 8);
}

// Latent attention gathers only the latents: r_q + r_kv + g_r = 1536 + 512 + 64 of DeepSeek-V3's
// 7168. Shared experts gather the whole hidden state.
TEST(Activations, GatheredInputOfLatentAttentionAndSharedExperts) {
  OwnedProblem problem = PlainProblem(DeepseekV3(), 1);
  for (const bool is_moe : {false, true}) {
    problem.profile.sequence_parallel_regathers_input = true;
    const double usual = StoredBy(problem, kSequence8, is_moe);
    std::vector<double> widths;
    for (const Collective& c : LayerOf(problem, kSequence8, is_moe).collectives) {
      if (c.kind == CollectiveKind::kAllGather && c.forward_count == 1) {
        EXPECT_EQ(c.backward_count, 1);  // gathered again
        widths.push_back(static_cast<double>(c.bytes.count) / 2 / kTokens);
      }
    }
    EXPECT_EQ(widths, (std::vector<double>{2112, 7168})) << is_moe;
    problem.profile.sequence_parallel_regathers_input = false;
    EXPECT_DOUBLE_EQ(StoredBy(problem, kSequence8, is_moe),
                     usual + kTokens * 2 * (2112 + 7168) * 7 / 8);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
