#include "search_space/spec/choices.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

template <typename Enum>
class ChoicesTest : public testing::Test {};

using Sets = testing::Types<MlpKind, LinearBiases, NormKind, Precision, GradientDtype, Fp8Recipe,
                            AttentionKernel, KernelFusion, Optimizer, Schedule, ContextParallelKind,
                            RecomputeGranularity, LinkKind, NodeTopology, ClusterTopology,
                            Provenance, Tier, Outcome, Confidence>;
TYPED_TEST_SUITE(ChoicesTest, Sets);

TYPED_TEST(ChoicesTest, WordsAndValuesMapBothWays) {
  std::set<std::string_view> words;
  int next = 0;
  for (const auto& [value, word] : Choices<TypeParam>()) {
    EXPECT_EQ(static_cast<int>(value), next++) << "the table keeps the order of the enumerators";
    EXPECT_EQ(Word(value), word);
    EXPECT_EQ(ParseChoice<TypeParam>(word), value);
    words.insert(word);
  }
  EXPECT_EQ(words.size(), Choices<TypeParam>().size());
  EXPECT_FALSE(ParseChoice<TypeParam>("no such word").has_value());
}

// The table of words in the contract, row by row. It reveals a value that an enumeration has but
// its table lacks, and a word that is spelt differently. The last two rows are words of chip files.
TEST(WordsTest, AreThoseOfTheContract) {
  EXPECT_EQ(AllowedWords<Schedule>(),
            "gpipe, 1f1b, interleaved_1f1b, zb_h1, zb_v, dualpipe, dualpipe_v, chimera");
  EXPECT_EQ(AllowedWords<ContextParallelKind>(), "ring, ulysses, all_gather, hybrid");
  EXPECT_EQ(AllowedWords<RecomputeGranularity>(), "none, selective, full");
  EXPECT_EQ(AllowedWords<GradientDtype>(), "fp32, bf16, fp16");
  EXPECT_EQ(AllowedWords<Fp8Recipe>(), "tensorwise, rowwise, blockwise, delayed, mxfp8");
  EXPECT_EQ(AllowedWords<AttentionKernel>(),
            "unfused, fused_softmax, flash1, flash2, flash3, cudnn, vendor");
  EXPECT_EQ(AllowedWords<KernelFusion>(), "unfused, fused");
  EXPECT_EQ(AllowedWords<MlpKind>(), "gelu, swiglu, geglu, quick_geglu, relu, squared_relu");
  EXPECT_EQ(AllowedWords<LinearBiases>(), "none, qkv, attention, feed_forward, all");
  EXPECT_EQ(AllowedWords<NormKind>(), "layernorm, rmsnorm");
  EXPECT_EQ(AllowedWords<Optimizer>(), "adam, adam8bit, sgd");
  EXPECT_EQ(AllowedWords<LinkKind>(),
            "nvlink2, nvlink3, nvlink4, nvlink5, xgmi, hccs, pcie4, pcie5, ici, neuronlink, "
            "infiniband, roce, ethernet, omnipath, efa, vendor");
  EXPECT_EQ(AllowedWords<ClusterTopology>(),
            "rail_optimized, fat_tree, full_mesh, torus, single_switch");
  EXPECT_EQ(AllowedWords<Provenance>(), "measured, transferred, fitted, published, assumed");
  EXPECT_EQ(AllowedWords<Tier>(), "closed_form, simulated");
  EXPECT_EQ(AllowedWords<Outcome>(), "ok, oom, crash, hang, timeout, cancelled");
  EXPECT_EQ(AllowedWords<Confidence>(), "high, medium, low");
  EXPECT_EQ(AllowedWords<NodeTopology>(),
            "switched, full_mesh, ring, torus, pcie_tree, rack_switched");
}

TEST(AllowedWordsTest, ListsTheTable) {
  EXPECT_EQ(AllowedWords<Precision>(), "bf16, fp16, fp8, fp32");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
