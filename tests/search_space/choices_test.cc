#include "search_space/choices.h"

#include <set>
#include <string_view>

#include "gtest/gtest.h"

namespace meshwright {
namespace {

template <typename Enum>
class ChoicesTest : public testing::Test {};

using Sets =
    testing::Types<MlpKind, NormKind, Precision, GradientDtype, Fp8Recipe, AttentionKernel,
                   KernelFusion, Optimizer, Schedule, ContextParallelKind, RecomputeGranularity,
                   LinkKind, NodeTopology, ClusterTopology, Provenance, Tier, Outcome, Confidence>;
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

TEST(AllowedWordsTest, ListsTheTable) {
  EXPECT_EQ(AllowedWords<Precision>(), "bf16, fp16, fp8, fp32");
}

}  // namespace
}  // namespace meshwright
