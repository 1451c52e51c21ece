#include "estimator/terms/attention.h"

#include <gtest/gtest.h>

#include <optional>
#include <ostream>

#include "estimator/layer/layer_program.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  AttentionShape shape;
  double expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// 4 b s^2 a g z (FlashAttention-2, arXiv 2307.08691, section 4.1), z = 1/2 causal, w/s (1 - w/(2s))
// in a window of w keys.
const Case kCases[] = {
    // 4 * 2 * 16 * 128 * 4096^2 / 2
    {"Causal",
     {.batch = 2, .heads = 16, .head_dim = 128, .query_tokens = 4096, .key_tokens = 4096},
     4.0 * 2 * 16 * 128 * 4096 * 4096 / 2},
    // w/s = 1/4: z = 1/4 * 7/8 = 0.21875
    {"Window",
     {.batch = 1,
      .heads = 32,
      .head_dim = 128,
      .query_tokens = 4096,
      .key_tokens = 4096,
      .window = 1024},
     4.0 * 32 * 128 * 4096 * 4096 * 0.21875},
    // A window longer than the sequence is no window.
    {"WindowBeyondSequence",
     {.batch = 1,
      .heads = 32,
      .head_dim = 128,
      .query_tokens = 4096,
      .key_tokens = 4096,
      .window = 8192},
     4.0 * 32 * 128 * 4096 * 4096 / 2},
    // A window of the whole sequence is causal: z = 1 * (1 - 1/2).
    {"WindowOfSequence",
     {.batch = 1,
      .heads = 32,
      .head_dim = 128,
      .query_tokens = 4096,
      .key_tokens = 4096,
      .window = 4096},
     4.0 * 32 * 128 * 4096 * 4096 / 2},
    // One of four context-parallel ranks: a quarter of the queries on all keys.
    {"QuarterOfQueries",
     {.batch = 1, .heads = 32, .head_dim = 128, .query_tokens = 1024, .key_tokens = 4096},
     4.0 * 32 * 128 * 1024 * 4096 / 2},
};

class AttentionFlopsTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionFlopsTest, Count) {
  EXPECT_DOUBLE_EQ(AttentionFlops(GetParam().shape).count, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionFlopsTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// The attention kernel of one layer of `model`, 4096 tokens, one sequence.
Kernel AttentionOf(const ModelSpec& model, const LayerSharding& sharding) {
  const Workload workload = {.sequence_length = 4096, .global_batch_size = 1};
  const FrameworkProfile profile;
  const LayerProgram program =
      BuildLayer({.model = model, .workload = workload, .profile = profile, .sharding = sharding},
                 LayerList(model).kinds().front());
  for (const Kernel& kernel : program.kernels) {
    if (kernel.kind == KernelKind::kAttention) return kernel;
  }
  return {};
}

// MLA: 2 b s^2 a (g + g_r + g_v) z = 2 * 4096^2 * 128 * (128 + 64 + 128) / 2: scores at 192
// dimensions, values at 128, a mean head size of 160.
TEST(AttentionFlops, LatentAttentionHasMeanHeadSize) {
  const Kernel kernel = AttentionOf(DeepseekV3(), {});
  EXPECT_DOUBLE_EQ(kernel.attention.head_dim, 160);
  EXPECT_DOUBLE_EQ(kernel.flops.count, 2.0 * 4096 * 4096 * 128 * 320 / 2);
}

// t divides heads; c divides queries (ring) or heads (Ulysses) or both (hybrid): the same count.
TEST(AttentionFlops, DividedByTensorAndContext) {
  const double whole = AttentionOf(Llama2_70b(), {}).flops.count;
  for (const auto kind : {ContextParallelKind::kRing, ContextParallelKind::kUlysses}) {
    const LayerSharding sharding = {
        .tensor_parallel = 4, .context_parallel = 2, .context_parallel_kind = kind};
    EXPECT_DOUBLE_EQ(AttentionOf(Llama2_70b(), sharding).flops.count, whole / 8);
  }
  const LayerSharding hybrid = {.context_parallel = 8,
                                .context_parallel_kind = ContextParallelKind::kHybrid,
                                .hybrid_exchange_ranks = 4};
  const Kernel kernel = AttentionOf(Llama2_70b(), hybrid);
  EXPECT_DOUBLE_EQ(kernel.flops.count, whole / 8);
  EXPECT_DOUBLE_EQ(kernel.attention.heads, 64 / 4.0);
  EXPECT_DOUBLE_EQ(kernel.attention.query_tokens, 4096 / 2.0);
}

ChipSpec A100Chip() {
  ChipSpec chip;
  chip.core_count = 108;
  chip.memory_bandwidth = {2.039e12};
  chip.memory_bound_efficiency = 0.8;
  chip.memory_bound_fixed = Seconds(3e-6);
  chip.attention = {.efficiency = 0.573,
                    .sequence_half = 1,
                    .wave_half = 0.928,
                    .flash2_ratio = 1,
                    .small_head_ratio = 0.87};
  return chip;
}

// A100, 32 heads of 128, 4096 tokens (constants of docs/cost_model/attention.md):
//   waves = 32 * 4096/128 / 108 = 9.48148; efficiency = 0.573 * 9.48148 / (9.48148 + 0.928) =
//   0.521917
//   FLOPs = 4 * 32 * 128 * 4096^2 / 2 = 1.37439e11; ramp = 1 + 1/4096
//   t = 3 us + 1.37439e11 * 1.000244 / (312e12 * 0.521917) = 847.228 us
TEST(FusedAttentionTime, A100ByHand) {
  const AttentionShape shape = {
      .batch = 1, .heads = 32, .head_dim = 128, .query_tokens = 4096, .key_tokens = 4096};
  const DeviceRates rates = {.peak = {312e12}};
  const double t =
      FusedAttentionTime(shape, AttentionKernel::kFlash2, A100Chip(), rates).count() - 3e-6;
  EXPECT_NEAR(t, 844.228e-6, 1e-8);
  // FlashAttention 1 runs at 0.6 of the rate of 2.
  const double flash1 =
      FusedAttentionTime(shape, AttentionKernel::kFlash1, A100Chip(), rates).count() - 3e-6;
  EXPECT_NEAR(flash1, t / 0.6, 1e-9);
  // Heads of 64: half the FLOPs at 0.87 of the rate.
  AttentionShape small = shape;
  small.head_dim = 64;
  const double narrow =
      FusedAttentionTime(small, AttentionKernel::kFlash2, A100Chip(), rates).count() - 3e-6;
  EXPECT_NEAR(narrow, t / 2 / 0.87, 1e-9);
}

// The pass above, backward:
//   without constants of its own  2.8 * 847.228 = 2372.237 us
//   sequence_half = 4096          ramp 2 instead of 1.000244: 2.8 * (3 + 844.228 * 1.999512)
//   wave_half = 0                 efficiency 0.573 instead of 0.521917: 2.8 * (3 + 844.228 *
//                                 0.910850)
//   both                          2.8 * (3 + 1.37439e11 * 2 / (312e12 * 0.573)) = 2.8 * 1540.555
TEST(FusedAttentionBackwardTime, A100ByHand) {
  const AttentionShape shape = {
      .batch = 1, .heads = 32, .head_dim = 128, .query_tokens = 4096, .key_tokens = 4096};
  const DeviceRates rates = {.peak = {312e12}};
  const auto time = [&](std::optional<double> sequence_half, std::optional<double> wave_half) {
    ChipSpec chip = A100Chip();
    chip.attention.backward_sequence_half = sequence_half;
    chip.attention.backward_wave_half = wave_half;
    // Forward keeps its own constants.
    EXPECT_EQ(FusedAttentionTime(shape, AttentionKernel::kFlash2, chip, rates),
              FusedAttentionTime(shape, AttentionKernel::kFlash2, A100Chip(), rates));
    return FusedAttentionBackwardTime(shape, AttentionKernel::kFlash2, chip, rates).count();
  };
  EXPECT_NEAR(time({}, {}), 2372.237e-6, 1e-8);
  EXPECT_NEAR(time(4096, {}), 4734.921e-6, 2e-8);
  EXPECT_NEAR(time({}, 0), 2161.502e-6, 2e-8);
  EXPECT_NEAR(time(4096, 0), 4313.554e-6, 2e-8);
}

// A power limit slows the products, not the traffic: a pass that memory limits is as long as
// before,
//   3 us + 2 * 32 * 128 * (2 * 4096 + 2 * 4096) / (1e9 * 0.8).
TEST(FusedAttentionTime, PowerLimited) {
  const AttentionShape shape = {
      .batch = 1, .heads = 32, .head_dim = 128, .query_tokens = 4096, .key_tokens = 4096};
  const DeviceRates limited = {.peak = {312e12}, .power_time_ratio = 1.25};
  ChipSpec chip = A100Chip();
  EXPECT_NEAR(FusedAttentionTime(shape, AttentionKernel::kFlash2, chip, limited).count(),
              3e-6 + 1.25 * 844.228e-6, 2e-8);
  chip.memory_bandwidth = {1e9};
  EXPECT_NEAR(FusedAttentionTime(shape, AttentionKernel::kFlash2, chip, limited).count(),
              3e-6 + 134'217'728 / 0.8e9, 1e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
