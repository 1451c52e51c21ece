#include "estimator/layer/layer_program.h"

#include <gtest/gtest.h>

#include <ostream>
#include <vector>

#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// All cases have n = 4096 tokens per rank: one sequence of PlainProblem.
constexpr double kTokens = 4096;

double Count(Bytes bytes) { return static_cast<double>(bytes.count); }

struct BiasCase {
  const char* name;
  LayerSharding sharding;
  double bytes_per_token;
};

void PrintTo(const BiasCase& c, std::ostream* out) { *out << c.name; }

// GPT-3 175B, h = q = u = 12288, f = 49152: 16-bit gradients of the outputs of the four linear
// layers, q + 2u and f wide (divided by t), h and h wide (divided by t under sequence parallelism).
constexpr double kSplitWidth = 3 * 12288 + 49152;
constexpr double kHiddenWidth = 2 * 12288;
constexpr BiasCase kBiasCases[] = {
    {"Whole", {}, 2 * (kSplitWidth + kHiddenWidth)},
    {"Tensor8", {.tensor_parallel = 8}, 2 * (kSplitWidth / 8 + kHiddenWidth)},
    {"Tensor8Sequence",
     {.tensor_parallel = 8, .sequence_parallel = true},
     2 * (kSplitWidth + kHiddenWidth) / 8},
    {"Context2", {.context_parallel = 2}, 2 * (kSplitWidth + kHiddenWidth) / 2},
};

class BiasGradientsTest : public testing::TestWithParam<BiasCase> {};

TEST_P(BiasGradientsTest, ReadOnceInBackward) {
  const BiasCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Gpt3_175b(), 1);
  problem.profile.bias_gradient_is_fused = false;
  const std::vector<Kernel> sums = Named(LayerOf(problem, c.sharding), "bias gradients");
  ASSERT_EQ(sums.size(), 1);
  EXPECT_EQ(sums[0].bytes, Bytes{0});
  EXPECT_DOUBLE_EQ(Count(sums[0].backward_bytes), kTokens * c.bytes_per_token);
  EXPECT_EQ(sums[0].launches, 0);
  EXPECT_EQ(sums[0].backward_launches, 4);
}

INSTANTIATE_TEST_SUITE_P(All, BiasGradientsTest, testing::ValuesIn(kBiasCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Experts have no biases: the layer sums only those of attention.
TEST(BiasGradients, OfAttentionAloneWithExperts) {
  OwnedProblem problem = PlainProblem(Mixtral_8x7b(), 1);
  problem.model.norm = NormKind::kLayernorm;
  problem.profile.bias_gradient_is_fused = false;
  const std::vector<Kernel> sums = Named(LayerOf(problem, {}, true), "bias gradients");
  ASSERT_EQ(sums.size(), 1);
  // q + 2u = 4096 + 2 x 1024, and h.
  EXPECT_DOUBLE_EQ(Count(sums[0].backward_bytes), 4096 * 2 * (6144 + 4096.0));
  EXPECT_EQ(sums[0].backward_launches, 2);
}

// Biases of queries, keys and values only (Qwen2): q + 2u = 3 x 4096 of Llama 2 7B, in one kernel.
TEST(BiasGradients, OfWhatTheModelStates) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.bias_gradient_is_fused = false;
  SetBiases(LinearBiases::kQkv, problem.model);
  std::vector<Kernel> sums = Named(LayerOf(problem, {}), "bias gradients");
  ASSERT_EQ(sums.size(), 1);
  EXPECT_DOUBLE_EQ(Count(sums[0].backward_bytes), kTokens * 2 * 3 * 4096);
  EXPECT_EQ(sums[0].backward_launches, 1);
  SetBiases(LinearBiases::kFeedForward, problem.model);  // f = 11008 and h = 4096
  sums = Named(LayerOf(problem, {}), "bias gradients");
  ASSERT_EQ(sums.size(), 1);
  EXPECT_DOUBLE_EQ(Count(sums[0].backward_bytes), kTokens * 2 * (11008 + 4096));
  EXPECT_EQ(sums[0].backward_launches, 2);
}

// Two blocks have a norm each, before or after them, or both (Llama, OLMo 2, Gemma 2).
TEST(Norms, AreWhereTheModelHasThem) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  EXPECT_EQ(Named(LayerOf(problem, {}), "norm").size(), 2);
  problem.model.post_norms = true;
  EXPECT_EQ(Named(LayerOf(problem, {}), "norm").size(), 4);
  problem.model.pre_norms = false;
  EXPECT_EQ(Named(LayerOf(problem, {}), "norm").size(), 2);
}

// Three passes over n x V = 4096 x 32000 logits of 2 bytes: 12 bytes forward, 14 backward.
TEST(SoftCaps, PassOverLogitsAndUnfusedScores) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.workload.attention_kernel = AttentionKernel::kUnfused;
  const auto softmax = [&] { return Named(LayerOf(problem, {}), "softmax").front(); };
  const Kernel before = softmax();
  problem.model.attention_soft_cap = 50;
  const Kernel after = softmax();
  const double scores = 32.0 * kTokens * kTokens;  // heads x tokens x tokens
  EXPECT_DOUBLE_EQ(Count(after.bytes) - Count(before.bytes), 12 * scores);
  EXPECT_DOUBLE_EQ(Count(after.backward_bytes) - Count(before.backward_bytes), 14 * scores);
  EXPECT_DOUBLE_EQ(Count(after.stored_bytes) - Count(before.stored_bytes), 2 * scores);
  EXPECT_EQ(after.launches - before.launches, 3);
}

// A fused one costs nothing, and the RMSNorm families have no biases.
TEST(BiasGradients, None) {
  EXPECT_TRUE(Named(LayerOf(PlainProblem(Gpt3_175b(), 1), {}), "bias gradients").empty());
  OwnedProblem llama = PlainProblem(Llama2_7b(), 1);
  llama.profile.bias_gradient_is_fused = false;
  EXPECT_TRUE(Named(LayerOf(llama, {}), "bias gradients").empty());
}

struct AccumulationCase {
  const char* name;
  ModelSpec model;
  bool is_moe;
  GradientDtype gradient_dtype;
  LayerSharding sharding;
  double expected;
};

void PrintTo(const AccumulationCase& c, std::ostream* out) { *out << c.name; }

// A 16-bit gradient is read, its sum read and written: 2 + 2 x 4 bytes per parameter in fp32, 2 + 2
// x 2 in 16 bits. A layer of Llama-2-7B has 4 x 4096^2 + 3 x 4096 x 11008 = 202,375,168 elements in
// matrices and 2 x 4096 in norms; one of Mixtral 41,943,040 in attention, 32,768 in the router,
// 8,192 in norms and 3 x 4096 x 14336 in each of 8 experts.
constexpr double kMatrices = 202'375'168;
constexpr double kNorms = 8192;
constexpr double kExpert = 3.0 * 4096 * 14336;
const AccumulationCase kAccumulationCases[] = {
    {"Fp32", Llama2_7b(), false, GradientDtype::kFp32, {}, 10 * (kMatrices + kNorms)},
    {"Bf16", Llama2_7b(), false, GradientDtype::kBf16, {}, 6 * (kMatrices + kNorms)},
    {"Fp16", Llama2_7b(), false, GradientDtype::kFp16, {}, 6 * (kMatrices + kNorms)},
    {"Tensor8",
     Llama2_7b(),
     false,
     GradientDtype::kFp32,
     {.tensor_parallel = 8},
     10 * (kMatrices / 8 + kNorms)},
    {"Experts4",
     Mixtral_8x7b(),
     true,
     GradientDtype::kFp32,
     {.expert_parallel = 4},
     10 * (41'943'040 + 32'768 + kNorms + 8 * kExpert / 4)},
    {"Experts4Tensor2",
     Mixtral_8x7b(),
     true,
     GradientDtype::kFp32,
     {.expert_parallel = 4, .expert_tensor_parallel = 2},
     10 * (41'943'040 + 32'768 + kNorms + 8 * kExpert / 8)},
};

class AccumulationTest : public testing::TestWithParam<AccumulationCase> {};

TEST_P(AccumulationTest, AddsEveryParameterOfTheDevice) {
  const AccumulationCase& c = GetParam();
  OwnedProblem problem = PlainProblem(c.model, 1);
  problem.workload.gradient_dtype = c.gradient_dtype;
  EXPECT_TRUE(Named(LayerOf(problem, c.sharding, c.is_moe), "gradient accumulation").empty());
  problem.profile.gradient_accumulation_is_fused = false;
  const std::vector<Kernel> add =
      Named(LayerOf(problem, c.sharding, c.is_moe), "gradient accumulation");
  ASSERT_EQ(add.size(), 1);
  EXPECT_EQ(add[0].bytes, Bytes{0});
  EXPECT_DOUBLE_EQ(Count(add[0].backward_bytes), c.expected);
  EXPECT_EQ(add[0].launches, 0);
  EXPECT_EQ(add[0].backward_launches, 6);  // four matrices and two norms, tensor by tensor
}

INSTANTIATE_TEST_SUITE_P(All, AccumulationTest, testing::ValuesIn(kAccumulationCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct CopyCase {
  const char* name;
  AttentionKernel kernel;
  LayerSharding sharding;
  double width;  // copied elements per token
  int launches;
};

void PrintTo(const CopyCase& c, std::ostream* out) { *out << c.name; }

// Llama-2-70B: q = 8192, u = 1024. A fused kernel has queries, keys and values copied in and its
// output out (2q + 2u); without one only the output is copied (q). 2 bytes are read, 2 written.
constexpr CopyCase kCopyCases[] = {
    {"Fused", AttentionKernel::kFlash2, {}, 2 * 8192 + 2 * 1024, 4},
    {"FusedTensor8",
     AttentionKernel::kFlash2,
     {.tensor_parallel = 8},
     (2 * 8192 + 2 * 1024) / 8.0,
     4},
    // 16 ranks have a copy of one of 8 heads each: u = 2048.
    {"FusedTensor16",
     AttentionKernel::kFlash2,
     {.tensor_parallel = 16},
     (2 * 8192 + 2 * 2048) / 16.0,
     4},
    {"Eager", AttentionKernel::kUnfused, {}, 8192, 1},
    {"FusedSoftmaxTensor8", AttentionKernel::kFusedSoftmax, {.tensor_parallel = 8}, 8192 / 8.0, 1},
};

class HeadCopiesTest : public testing::TestWithParam<CopyCase> {};

TEST_P(HeadCopiesTest, BothWays) {
  const CopyCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_70b(), 2);
  problem.workload.attention_kernel = c.kernel;
  EXPECT_TRUE(Named(LayerOf(problem, c.sharding), "head copies").empty());
  problem.profile.attention_copies_heads = true;
  const std::vector<Kernel> copies = Named(LayerOf(problem, c.sharding), "head copies");
  ASSERT_EQ(copies.size(), 1);
  EXPECT_DOUBLE_EQ(Count(copies[0].bytes), 4 * kTokens * c.width);
  EXPECT_DOUBLE_EQ(Count(copies[0].backward_bytes), 4 * kTokens * c.width);
  EXPECT_EQ(copies[0].launches, c.launches);
  EXPECT_EQ(copies[0].backward_launches, c.launches);
  EXPECT_EQ(copies[0].stored_bytes, Bytes{0});
}

INSTANTIATE_TEST_SUITE_P(All, HeadCopiesTest, testing::ValuesIn(kCopyCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Latent attention copies a (g + g_r) elements of queries, as many and a g_v of keys and values,
// and a g_v of output: 128 heads of 192, 192 + 128 and 128 per token, all divided by t.
TEST(HeadCopies, OfLatentAttention) {
  OwnedProblem problem = PlainProblem(DeepseekV3(), 1);
  problem.profile.attention_copies_heads = true;
  const std::vector<Kernel> copies =
      Named(LayerOf(problem, {.tensor_parallel = 8}, false), "head copies");
  ASSERT_EQ(copies.size(), 1);
  EXPECT_DOUBLE_EQ(Count(copies[0].bytes), 4 * 4096.0 * 128 * (192 + 192 + 128 + 128) / 8);
}

// The vocabulary's gradients are summed too, on the stage of the embedding and of the output layer.
TEST(Accumulation, OfTheVocabulary) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.gradient_accumulation_is_fused = false;
  const LayerSharding sharding = {.tensor_parallel = 2};
  const LayerContext context = {.model = problem.model,
                                .workload = problem.workload,
                                .profile = problem.profile,
                                .sharding = sharding};
  for (const LayerProgram& program : {BuildEmbedding(context), BuildHead(context)}) {
    const std::vector<Kernel> add = Named(program, "gradient accumulation");
    ASSERT_EQ(add.size(), 1);
    EXPECT_DOUBLE_EQ(Count(add[0].backward_bytes), 10 * 32000.0 * 4096 / 2);
    EXPECT_EQ(add[0].backward_launches, 1);
  }
}

// ZeRO-2 and 3 add up only the reduced gradients that a rank owns.
TEST(Accumulation, OfAShare) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.gradient_accumulation_is_fused = false;
  const auto bytes = [&](int shards) {
    return Count(Named(LayerOf(problem, {.gradient_shards = shards}), "gradient accumulation")[0]
                     .backward_bytes);
  };
  EXPECT_NEAR(bytes(8), bytes(1) / 8, 1);
}

struct ResidualCase {
  const char* name;
  double dropout_ratio;
  LayerSharding sharding;
  double elements;  // per token on one rank
  double bytes;     // per element
  double backward_bytes;
  double stored_bytes;
};

void PrintTo(const ResidualCase& c, std::ostream* out) { *out << c.name; }

// Two tensors are read and one written, 2 bytes each, both ways. Dropout also writes its mask (1);
// backward then reads a gradient and the mask and writes a gradient (2 + 1 + 2).
constexpr LayerSharding kSequence8 = {.tensor_parallel = 8, .sequence_parallel = true};
constexpr ResidualCase kResidualCases[] = {
    {"NoDropout", 0, {}, 4096, 6, 6, 0},
    {"Dropout", 0.1, {}, 4096, 7, 11, 1},
    {"DropoutTensor8", 0.1, {.tensor_parallel = 8}, 4096, 7, 11, 1},
    {"DropoutTensor8Sequence", 0.1, kSequence8, 512, 7, 11, 1},
};

class ResidualTest : public testing::TestWithParam<ResidualCase> {};

TEST_P(ResidualTest, Traffic) {
  const ResidualCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.workload.dropout_ratio = c.dropout_ratio;
  const std::vector<Kernel> residuals = Named(LayerOf(problem, c.sharding), "residual");
  ASSERT_EQ(residuals.size(), 2);  // after attention and after the feed-forward block
  for (const Kernel& kernel : residuals) {
    EXPECT_DOUBLE_EQ(Count(kernel.bytes), kTokens * c.elements * c.bytes);
    EXPECT_DOUBLE_EQ(Count(kernel.backward_bytes), kTokens * c.elements * c.backward_bytes);
    EXPECT_DOUBLE_EQ(Count(kernel.stored_bytes), kTokens * c.elements * c.stored_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResidualTest, testing::ValuesIn(kResidualCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct BesideCase {
  const char* name;
  bool hides;
  bool regathers;
  LayerSharding sharding;
  int gathers;  // gathers of the whole layer that run beside a GEMM in the backward pass
  int others;   // scatters or all-reduces that do
};

void PrintTo(const BesideCase& c, std::ostream* out) { *out << c.name; }

// In each of two blocks the gather of its input runs beside the GEMM of the input's gradient, and
// the reduction of that gradient beside the GEMM of the weight's gradient. Nothing hides the gather
// that reverses the forward scatter.
constexpr BesideCase kBesideCases[] = {
    {"Visible", false, true, kSequence8, 0, 0},
    {"Sequence", true, true, kSequence8, 2, 2},
    {"SequenceInputKept", true, false, kSequence8, 0, 2},
    {"AllReduce", true, true, {.tensor_parallel = 8}, 0, 2},
};

class BesideCountsTest : public testing::TestWithParam<BesideCase> {};

TEST_P(BesideCountsTest, Counts) {
  const BesideCase& c = GetParam();
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.profile.hides_backward_tensor_parallel = c.hides;
  problem.profile.sequence_parallel_regathers_input = c.regathers;
  int gathers = 0;
  int others = 0;
  for (const Collective& collective : LayerOf(problem, c.sharding).collectives) {
    EXPECT_FALSE(collective.hidden_by_compute);
    const bool is_gather = collective.kind == CollectiveKind::kAllGather;
    (is_gather ? gathers : others) += collective.backward_beside_gemm;
  }
  EXPECT_EQ(gathers, c.gathers);
  EXPECT_EQ(others, c.others);
}

INSTANTIATE_TEST_SUITE_P(All, BesideCountsTest, testing::ValuesIn(kBesideCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct HeadCase {
  const char* name;
  int head_dim;
  bool is_aligned;
};

void PrintTo(const HeadCase& c, std::ostream* out) { *out << c.name; }

// Matrix units want rows of 16 bytes, 8 elements.
constexpr HeadCase kHeadCases[] = {
    {"Head128", 128, true}, {"Head72", 72, true}, {"Head84", 84, false}, {"Head117", 117, false}};

class UnalignedHeadsTest : public testing::TestWithParam<HeadCase> {};

TEST_P(UnalignedHeadsTest, OnlyTheTwoProductsOfHeads) {
  OwnedProblem problem = PlainProblem(Gpt3_175b(), 1);
  problem.model.head_dim = GetParam().head_dim;
  for (const auto kernel : {AttentionKernel::kUnfused, AttentionKernel::kFusedSoftmax}) {
    problem.workload.attention_kernel = kernel;
    int products = 0;
    for (const Kernel& k : LayerOf(problem, {.tensor_parallel = 8}).kernels) {
      if (k.kind != KernelKind::kMatmul) continue;
      const bool is_product = k.name == "scores" || k.name == "weighted values";
      EXPECT_EQ(k.matmul.is_aligned, !is_product || GetParam().is_aligned) << k.name;
      products += is_product ? 1 : 0;
    }
    EXPECT_EQ(products, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(All, UnalignedHeadsTest, testing::ValuesIn(kHeadCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
