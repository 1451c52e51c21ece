#include "search_space/space/space_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/space/space.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ApplyDimensionsTest, ValuesRangesAndWords) {
  SpaceOptions options;
  const auto violations =
      ApplyDimensions({{.name = "tensor_parallel", .values = {"2", "8"}},
                       {.name = "pipeline_parallel", .at_least = 2, .at_most = 16},
                       {.name = "schedule", .values = {"zb_v", "1f1b"}},
                       {.name = "rank_order", .values = {"tp-cp-ep-pp-dp"}},
                       {.name = "sequence_parallel", .values = {"true"}},
                       {.name = "recompute", .values = {"none", "full"}},
                       {.name = "recomputed_layers", .at_most = 4},
                       {.name = "data_parallel", .at_least = 8},
                       {.name = "zero_group_size", .values = {"0", "8"}},
                       {.name = "whole_weights_ratio", .values = {"0.5", "1", "0"}},
                       {.name = "optimizer_offload_ratio", .values = {"0.5", "0"}},
                       {.name = "activation_offload_ratio", .values = {"1", "0.25"}}},
                      "dimensions", options);
  EXPECT_TRUE(violations.empty());
  EXPECT_THAT(options.chosen[Dimension::kTensorParallel].values, ElementsAre(2, 8));
  EXPECT_FALSE(options.chosen[Dimension::kPipelineParallel].Allows(1));
  EXPECT_TRUE(options.chosen[Dimension::kPipelineParallel].Allows(16));
  EXPECT_THAT(options.schedules, ElementsAre(Schedule::kZbV, Schedule::k1f1b));
  EXPECT_THAT(options.rank_orders, ElementsAre(RankOrder::kTpCpEpPpDp));
  EXPECT_THAT(options.chosen[Dimension::kSequenceParallel].values, ElementsAre(1));
  EXPECT_FALSE(options.recomputed_layers.Allows(5));
  EXPECT_FALSE(options.data_parallel.Allows(4));
  EXPECT_TRUE(options.shards_in_groups);
  EXPECT_THAT(options.whole_weights_percents, ElementsAre(0, 50, 100));
  EXPECT_THAT(options.offload_percents, ElementsAre(0, 50));
  EXPECT_THAT(options.activation_offload_percents, ElementsAre(25, 100));
}

// Mixtures keep every granularity open.
TEST(ApplyDimensionsTest, MixedOpensMixtures) {
  SpaceOptions options;
  EXPECT_TRUE(
      ApplyDimensions({{.name = "recompute", .values = {"mixed"}}}, "dimensions", options).empty());
  EXPECT_TRUE(options.mixes_recompute);
  EXPECT_TRUE(options.chosen.empty());
}

struct Mistake {
  const char* name;
  std::vector<DimensionRequest> requests;
  const char* expected;
};

void PrintTo(const Mistake& c, std::ostream* out) { *out << c.name; }

const Mistake kMistakes[] = {
    {"UnknownName", {{.name = "tensors", .values = {"2"}}}, "must be one of tensor_parallel, "},
    {"UnknownWord", {{.name = "schedule", .values = {"fast"}}}, "must be one of gpipe, 1f1b"},
    {"NoNumber", {{.name = "zero_stage", .values = {"two"}}}, "must be a whole number"},
    {"Negative", {{.name = "zero_stage", .values = {"-1"}}}, "must be a whole number"},
    {"NoRatio",
     {{.name = "optimizer_offload_ratio", .values = {"1.5"}}},
     "must be one of 0, 0.01 .. 1"},
    {"NoTruth", {{.name = "sequence_parallel", .values = {"1"}}}, "must be one of false, true"},
    {"RangeOfWords", {{.name = "recompute", .at_least = 1}}, "takes values, not a range"},
    {"MixedWithOthers",
     {{.name = "recompute", .values = {"none", "mixed"}}},
     "recompute: mixed includes the others; state only mixed"},
    {"MixedTwice",
     {{.name = "recompute", .values = {"mixed"}}, {.name = "recompute", .values = {"none"}}},
     "stated twice"},
    {"Nothing", {{.name = "tensor_parallel"}}, "neither values nor a range"},
    {"EmptyRange",
     {{.name = "tensor_parallel", .at_least = 8, .at_most = 4}},
     "from 8 to 4; must be a range"},
    {"NegativeRange", {{.name = "tensor_parallel", .at_most = -1}}, "from 0 to -1"},
    {"ValueTwice", {{.name = "schedule", .values = {"1f1b", "1f1b"}}}, "states a value twice"},
    {"Twice",
     {{.name = "zero_stage", .values = {"1"}}, {.name = "zero_stage", .values = {"2"}}},
     "stated twice"},
};

class MistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsNamed) {
  SpaceOptions options;
  const auto violations = ApplyDimensions(GetParam().requests, "dimensions", options);
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_THAT(violations.front().field, HasSubstr("dimensions["));
  EXPECT_THAT(violations.front().description, HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(All, MistakeTest, testing::ValuesIn(kMistakes),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
