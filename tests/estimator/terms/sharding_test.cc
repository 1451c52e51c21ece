#include "estimator/terms/sharding.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "search_space/spec/model.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  int ranks;
  int stride;
  int devices_per_node;
  GroupShape expected;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Ranks are laid out tensor first, then context, expert/data, pipeline (Megatron-Core,
// parallel_state.py): members of a group are `stride` devices apart, so a node of 8 holds 8 /
// stride of them.
constexpr Case kCases[] = {
    {"OneRank", 1, 1, 8, {1, 1}},
    {"TensorInNode", 4, 1, 8, {4, 1}},
    {"TensorFillsNode", 8, 1, 8, {8, 1}},
    {"TensorLeavesNode", 16, 1, 8, {8, 2}},
    {"DataBesideTensor4", 8, 4, 8, {2, 4}},    // 8 / 4 = 2 in each node, 8 / 2 = 4 nodes
    {"DataBesideTensor8", 16, 8, 8, {1, 16}},  // one in each node
    {"StrideBeyondNode", 4, 16, 8, {1, 4}},    // the next member is two nodes on
    {"OddGroup", 6, 1, 8, {2, 3}},             // 6 does not fill nodes of 8: gcd(6, 8) per node
    {"CoprimeGroup", 3, 1, 8, {1, 3}},
    {"StrideThatDoesNotDivide", 4, 3, 8, {1, 4}},  // 3 does not divide 8
    {"SixteenDeviceNode", 32, 2, 16, {8, 4}},
};

class PlaceGroupTest : public testing::TestWithParam<Case> {};

TEST_P(PlaceGroupTest, Shape) {
  const Case& c = GetParam();
  const GroupShape shape = PlaceGroup(c.ranks, c.stride, c.devices_per_node);
  EXPECT_EQ(shape.in_node, c.expected.in_node);
  EXPECT_EQ(shape.nodes, c.expected.nodes);
  EXPECT_EQ(Ranks(shape), c.ranks);
}

INSTANTIATE_TEST_SUITE_P(All, PlaceGroupTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct HeadCase {
  const char* name;
  int heads;
  int keys;
  bool is_latent;
  int tensor;
  int expected;
};

constexpr HeadCase kHeadCases[] = {
    {"EveryHead", 64, 64, false, 4, 16},   {"GroupedQuery", 64, 8, false, 2, 4},
    {"OneKeyARank", 64, 8, false, 8, 1},   {"CopiedKeys", 64, 4, false, 8, 1},
    {"LatentHasAll", 128, 1, true, 4, 32},
};

class HeadTest : public testing::TestWithParam<HeadCase> {};

TEST_P(HeadTest, ExchangedHeads) {
  const HeadCase& c = GetParam();
  ModelSpec model = {.attention_head_count = c.heads, .kv_head_count = c.keys};
  if (c.is_latent) model.mla = MlaSpec{};
  EXPECT_EQ(ExchangedHeads(model, c.tensor), c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, HeadTest, testing::ValuesIn(kHeadCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct HybridCase {
  const char* name;
  int context;
  int tensor;
  int heads;  // per tensor-parallel rank
  int scale_up;
  int expected;
};

// The largest number of ranks that divides c and the heads of a tensor-parallel rank and that,
// times t, divides a node.
constexpr HybridCase kHybridCases[] = {
    {"AllInside", 8, 1, 64, 8, 8},         {"NodeIsFull", 8, 8, 8, 8, 1},
    {"HalfANode", 8, 4, 16, 8, 2},         {"FewHeads", 8, 1, 12, 8, 4},
    {"OddHeads", 8, 1, 7, 8, 1},           {"AcrossNodes", 32, 1, 64, 8, 8},
    {"ThreeWouldNotFill", 6, 1, 12, 4, 2},
};

class HybridTest : public testing::TestWithParam<HybridCase> {};

TEST_P(HybridTest, ExchangeRanks) {
  const HybridCase& c = GetParam();
  EXPECT_EQ(HybridExchangeRanks(c.context, c.tensor, c.heads, c.scale_up), c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, HybridTest, testing::ValuesIn(kHybridCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
