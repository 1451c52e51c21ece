#include "cli/reports/words.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "search_space/base/count_text.h"
#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(WordsTest, SecondsHaveThreeDigits) {
  EXPECT_EQ(SecondsText(0), "0 s");
  EXPECT_EQ(SecondsText(1.234e-5), "12.3 us");
  EXPECT_EQ(SecondsText(0.0999), "99.9 ms");
  EXPECT_EQ(SecondsText(0.09996), "100 ms");  // not 100.0
  EXPECT_EQ(SecondsText(1), "1.00 s");
  EXPECT_EQ(SecondsText(9.996), "10.0 s");
  EXPECT_EQ(SecondsText(1234.4), "1234 s");
}

TEST(WordsTest, Figures) {
  EXPECT_EQ(GibText(85899345920), "80.0");  // 80 x 2^30
  EXPECT_EQ(GibText(-1073741824), "-1.0");
  EXPECT_EQ(PercentText(0.5214), "52.1 %");
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(1234567), "1,234,567");
  EXPECT_EQ(CountText(-123), "-123");
  EXPECT_EQ(CountText(-1234), "-1,234");
}

struct Case {
  std::string name;
  std::string plan;  // text format, on top of kSmallest
  std::string words;
};

constexpr char kSmallest[] =
    "tensor_parallel: 1 pipeline_parallel: 1 virtual_pipeline: 1 data_parallel: 8 "
    "context_parallel: 1 context_parallel_kind: 'ring' expert_parallel: 1 "
    "expert_tensor_parallel: 1 micro_batch_size: 2 zero_stage: 1 schedule: '1f1b' "
    "recompute { granularity: 'none' } ";

const Case kCases[] = {
    {"smallest", "layers_per_stage: [32]", "dp8 mb2 zero1, recompute none"},
    {"dense",
     "tensor_parallel: 4 sequence_parallel: true pipeline_parallel: 2 layers_per_stage: [20, 20] "
     "recompute { granularity: 'full' layer_counts: [5, 5] }",
     "tp4 sp pp2 dp8 mb2 zero1 1f1b, recompute full 5/20 layers"},
    {"all_layers",
     "layers_per_stage: [20, 20] recompute { granularity: 'full' layer_counts: [20, 20] }",
     "dp8 mb2 zero1, recompute full every layer"},
    {"counts_empty", "recompute { granularity: 'full' }",
     "dp8 mb2 zero1, recompute full every layer"},
    {"counts_differ",
     "layers_per_stage: [20, 20] recompute { granularity: 'full' layer_counts: [5, 4] }",
     "dp8 mb2 zero1, recompute full 5+4 layers"},
    {"mixed",
     "layers_per_stage: [20, 20] recompute { granularity: 'full' layer_counts: [5, 5] "
     "selective_layer_counts: [4, 0] }",
     "dp8 mb2 zero1, recompute full 2x5 and selective 4+0 layers"},
    {"uneven",
     "pipeline_parallel: 2 layers_per_stage: [31, 30] "
     "recompute { granularity: 'full' layer_counts: [3, 3] }",
     "pp2 dp8 mb2 zero1 1f1b layers 31+30, recompute full 3 layers a stage"},
    {"runs", "layers_per_stage: [4, 4, 4, 3, 3, 5]",
     "dp8 mb2 zero1 layers 3x4+2x3+5, recompute none"},
    {"experts",
     "context_parallel: 2 expert_parallel: 8 expert_tensor_parallel: 2 "
     "recompute { granularity: 'selective' modules: ['mlp', 'moe_act'] }",
     "dp8 cp2 ring ep8 etp2 mb2 zero1, recompute selective mlp+moe_act"},
    {"interleaved",
     "pipeline_parallel: 2 virtual_pipeline: 5 schedule: 'interleaved_1f1b' "
     "optimizer_offload_ratio: 0.5 recompute { granularity: 'selective' }",
     "pp2 vp5 dp8 mb2 zero1 interleaved_1f1b offload 50.0 %, recompute selective"},
    {"activation_offload", "activation_offload_ratio: 0.25",
     "dp8 mb2 zero1 activation offload 25.0 %, recompute none"},
    {"whole_weights", "zero_stage: 3 whole_weights_ratio: 0.5",
     "dp8 mb2 zero3 whole weights 50.0 %, recompute none"},
    {"usual_order", "pipeline_parallel: 2 rank_order: 'tp-cp-ep-dp-pp'",
     "pp2 dp8 mb2 zero1 1f1b, recompute none"},
    {"pipeline_inside", "pipeline_parallel: 2 rank_order: 'tp-cp-ep-pp-dp'",
     "pp2 dp8 mb2 zero1 1f1b tp-cp-ep-pp-dp, recompute none"},
    {"group", "zero_group_size: 4", "dp8 mb2 zero1 in groups of 4, recompute none"},
};

class PlanWordsTest : public testing::TestWithParam<Case> {};

TEST_P(PlanWordsTest, AreShort) {
  v1::Plan plan;
  v1::Plan changes;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kSmallest, &plan));
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam().plan, &changes));
  plan.MergeFrom(changes);
  EXPECT_EQ(PlanWords(plan), GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(All, PlanWordsTest, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
