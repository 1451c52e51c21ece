#include "search_space/spec/plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(PlanKeyTest, TextOfTheDefaultPlan) {
  const PlanKey key = MakePlanKey(ParallelPlan{});
  EXPECT_EQ(key.text,
            "tp1.sp0.pp1.vp1.dp1.cp1.ckring.ep1.et1.mb1.zs0.zg0.sc1f1b.rgnone.rl.rm.lp.oo0.st");
  EXPECT_EQ(key.digest.size(), 16u);
  EXPECT_EQ(key.digest.find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(PlanKeyTest, TextOfEveryKindOfField) {
  const ParallelPlan plan = {
      .tensor_parallel = 8,
      .sequence_parallel = true,
      .pipeline_parallel = 2,
      .schedule = Schedule::kInterleaved1f1b,
      .recompute = {.granularity = RecomputeGranularity::kSelective,
                    .modules = {"core_attn", "a.b", ""}},
      .layers_per_stage = {20, 21},
      .optimizer_offload_ratio = 0.5,
      .stages = {{.pool = "a", .node_count = 2, .layer_count = 20}, {.pool = "", .node_count = 3}}};
  EXPECT_EQ(
      MakePlanKey(plan).text,
      "tp8.sp1.pp2.vp1.dp1.cp1.ckring.ep1.et1.mb1.zs0.zg0.scinterleaved_1f1b"
      ".rgselective.rl.rmcore_attn,a%2eb,%.lp20,21.oo0_5"
      ".stpla:nd2:tp1:dp1:cp1:ly20:mb1:rgnone:rl:rm;pl%:nd3:tp1:dp1:cp1:ly0:mb1:rgnone:rl:rm");
  EXPECT_EQ(ParsePlanKey(MakePlanKey(plan).text), plan);
}

// Plans with the usual order have the same keys as before there was another order.
TEST(PlanKeyTest, RankOrderStandsOnlyWhereItIsNotTheUsual) {
  const ParallelPlan plan = {.pipeline_parallel = 2, .rank_order = RankOrder::kTpCpEpPpDp};
  const std::string text = MakePlanKey(plan).text;
  EXPECT_EQ(text,
            "tp1.sp0.pp2.vp1.dp1.cp1.ckring.ep1.et1.mb1.zs0.zg0.sc1f1b.rgnone.rl.rm.lp.oo0.st"
            ".rotp-cp-ep-pp-dp");
  EXPECT_EQ(ParsePlanKey(text), plan);
  const std::string usual = MakePlanKey({.pipeline_parallel = 2}).text;
  EXPECT_FALSE(ParsePlanKey(usual + ".rotp-cp-ep-dp-pp").has_value());
  EXPECT_FALSE(ParsePlanKey(usual + ".ro").has_value());
  EXPECT_FALSE(ParsePlanKey(text + ".rotp-cp-ep-pp-dp").has_value());
}

TEST(PlanKeyTest, ActivationOffloadStandsOnlyWhereThereIsAny) {
  ParallelPlan plan = {.activation_offload_ratio = 0.25};
  const std::string plain = MakePlanKey({}).text;
  EXPECT_EQ(MakePlanKey(plan).text, plain + ".ao0_25");
  EXPECT_EQ(ParsePlanKey(plain + ".ao0_25"), plan);
  plan.rank_order = RankOrder::kTpCpEpPpDp;
  EXPECT_EQ(MakePlanKey(plan).text, plain + ".rotp-cp-ep-pp-dp.ao0_25");
  EXPECT_EQ(ParsePlanKey(plain + ".rotp-cp-ep-pp-dp.ao0_25"), plan);
  for (const char* const tail : {".ao0", ".ao", ".ao0_25.rotp-cp-ep-pp-dp", ".ao0_25.ao0_25"}) {
    EXPECT_FALSE(ParsePlanKey(plain + tail).has_value()) << tail;
  }
}

TEST(PlanKeyTest, WholeWeightsStandOnlyWhereThereAreAny) {
  ParallelPlan plan = {.zero_stage = 3, .whole_weights_ratio = 0.5};
  const std::string plain = MakePlanKey({.zero_stage = 3}).text;
  EXPECT_EQ(MakePlanKey(plan).text, plain + ".ww0_5");
  EXPECT_EQ(ParsePlanKey(plain + ".ww0_5"), plan);
  plan.activation_offload_ratio = 0.25;
  EXPECT_EQ(MakePlanKey(plan).text, plain + ".ao0_25.ww0_5");
  EXPECT_EQ(ParsePlanKey(plain + ".ao0_25.ww0_5"), plan);
  for (const char* const tail : {".ww0", ".ww", ".ww0_5.ao0_25", ".ww0_5.ww0_5"}) {
    EXPECT_FALSE(ParsePlanKey(plain + tail).has_value()) << tail;
  }
}

// Expects floor(ratio x layers), which is all of them at 1.
TEST(WholeLayersTest, ByHand) {
  EXPECT_EQ(WholeLayers(0, 32), 0);
  EXPECT_EQ(WholeLayers(0.25, 10), 2);
  EXPECT_EQ(WholeLayers(0.29, 100), 29);
  EXPECT_EQ(WholeLayers(0.99, 32), 31);
  EXPECT_EQ(WholeLayers(1, 32), 32);
  EXPECT_EQ(WholeLayers(1, 0), 0);  // a stage without layers
}

// Expects floor(ratio x layers), but never the last; 0.29 x 100 is 28.999999999999996 in binary.
TEST(OffloadedLayersTest, ByHand) {
  EXPECT_EQ(OffloadedLayers(0, 32), 0);
  EXPECT_EQ(OffloadedLayers(0.25, 32), 8);
  EXPECT_EQ(OffloadedLayers(0.25, 10), 2);
  EXPECT_EQ(OffloadedLayers(0.29, 100), 29);
  EXPECT_EQ(OffloadedLayers(1, 32), 31);
  EXPECT_EQ(OffloadedLayers(1, 1), 0);
  EXPECT_EQ(OffloadedLayers(1, 0), 0);  // a stage without layers
}

// Draws plans whose fields have few possible values, so that similar and equal plans occur.
class RandomPlans {
 public:
  ParallelPlan Draw() {
    ParallelPlan plan;
    for (int* const field : {&plan.tensor_parallel, &plan.pipeline_parallel, &plan.virtual_pipeline,
                             &plan.data_parallel, &plan.context_parallel, &plan.expert_parallel,
                             &plan.expert_tensor_parallel, &plan.micro_batch_size, &plan.zero_stage,
                             &plan.zero_group_size}) {
      *field = DrawInt();
    }
    plan.sequence_parallel = Below(2) == 1;
    plan.context_parallel_kind = DrawChoice<ContextParallelKind>();
    plan.schedule = DrawChoice<Schedule>();
    plan.rank_order = DrawChoice<RankOrder>();
    plan.recompute = DrawRecompute();
    plan.layers_per_stage = DrawInts();
    constexpr double kRatios[] = {0, -0.0, 0.1, 0.5, 1, 1e-300, 1e17, 1.0 / 3};
    plan.optimizer_offload_ratio = kRatios[Below(std::size(kRatios))];
    plan.activation_offload_ratio = kRatios[Below(std::size(kRatios))];
    plan.whole_weights_ratio = kRatios[Below(std::size(kRatios))];
    for (std::size_t i = Below(3); i > 0; --i) plan.stages.push_back(DrawStage());
    return plan;
  }

 private:
  std::size_t Below(std::size_t limit) { return generator_() % limit; }
  int DrawInt() {
    constexpr int kValues[] = {
        0, 1, 2, 16, 128, -1, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
    return kValues[Below(Below(4) == 0 ? std::size(kValues) : 2)];
  }
  std::vector<int> DrawInts() {
    std::vector<int> values(Below(3));
    for (int& value : values) value = DrawInt();
    return values;
  }
  std::string DrawString() {
    // Every character that the format itself uses, and a byte that is not ASCII.
    constexpr char kCharacters[] = {'a', '.', ',', ';', ':', '%', '_', '-', '\xff', '\0'};
    std::string text(Below(3), ' ');
    for (char& c : text) c = kCharacters[Below(std::size(kCharacters))];
    return text;
  }
  RecomputePlan DrawRecompute() {
    RecomputePlan recompute;
    recompute.granularity = DrawChoice<RecomputeGranularity>();
    recompute.layer_counts = DrawInts();
    for (std::size_t i = Below(3); i > 0; --i) recompute.modules.push_back(DrawString());
    recompute.selective_layer_counts = DrawInts();
    return recompute;
  }
  StagePlan DrawStage() {
    return {.pool = DrawString(),
            .node_count = DrawInt(),
            .tensor_parallel = DrawInt(),
            .data_parallel = DrawInt(),
            .context_parallel = DrawInt(),
            .layer_count = DrawInt(),
            .micro_batch_size = DrawInt(),
            .recompute = DrawRecompute()};
  }
  template <typename Enum>
  Enum DrawChoice() {
    return Choices<Enum>()[Below(Choices<Enum>().size())].value;
  }

  std::mt19937 generator_{20240607};
};

TEST(PlanKeyTest, TextIsInjectiveAndParsesBack) {
  RandomPlans plans;
  std::map<std::string, ParallelPlan> by_text;
  std::map<std::string, std::string> text_by_digest;
  for (int i = 0; i < 20'000; ++i) {
    const ParallelPlan plan = plans.Draw();
    const PlanKey key = MakePlanKey(plan);
    ASSERT_EQ(ParsePlanKey(key.text), plan) << key.text;
    ASSERT_EQ(by_text.emplace(key.text, plan).first->second, plan) << key.text;
    ASSERT_EQ(text_by_digest.emplace(key.digest, key.text).first->second, key.text);
  }
}

TEST(PlanKeyTest, ADifferentFieldGivesADifferentText) {
  const std::string text = MakePlanKey(ParallelPlan{}).text;
  EXPECT_NE(MakePlanKey({.recompute = {.modules = {""}}}).text, text);
  EXPECT_NE(MakePlanKey({.optimizer_offload_ratio = 1e-300}).text, text);
  EXPECT_NE(MakePlanKey({.stages = {StagePlan{}}}).text, text);
  EXPECT_EQ(MakePlanKey({.optimizer_offload_ratio = -0.0}).text, text);  // equal to 0
}

TEST(PlanKeyTest, OnlyCanonicalTextsParse) {
  const std::string text = MakePlanKey(ParallelPlan{.layers_per_stage = {20, 20}}).text;
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return std::string(text).replace(text.find(from), from.size(), to);
  };
  ASSERT_TRUE(ParsePlanKey(text).has_value());
  for (const std::string& bad :
       {std::string(), std::string("tp"), text.substr(0, text.size() - 3), text + ".", text + ";",
        text + "pl", replaced("tp1", "tp01"), replaced("tp1", "tp+1"), replaced("tp1", "tp"),
        replaced("tp1", "xx1"), replaced("tp1", "tp99999999999"), replaced("sp0", "sp2"),
        replaced("1f1b", "2f2b"), replaced("lp20", "lp20,"), replaced("rm", "rm%61"),
        replaced("rm", "rm%2"), replaced("rm", "rm%zz"), replaced("oo0", "oo0_0"),
        replaced("oo0", "oonan")}) {
    EXPECT_FALSE(ParsePlanKey(bad).has_value()) << bad;
  }
}

TEST(StageCountTest, StagesOverrideTheFlatField) {
  EXPECT_EQ(StageCount({.pipeline_parallel = 4}), 4);
  EXPECT_EQ(StageCount({.pipeline_parallel = 4, .stages = {StagePlan{}, StagePlan{}}}), 2);
}

TEST(MicroBatchCountTest, DividesTheBatch) {
  EXPECT_EQ(MicroBatchCount({.data_parallel = 16, .micro_batch_size = 2}, 1024), 32);
  EXPECT_EQ(MicroBatchCount({.data_parallel = 16, .micro_batch_size = 3}, 1024), 21);  // 21.3
  const ParallelPlan mixed = {.data_parallel = 1,
                              .stages = {{.data_parallel = 8, .micro_batch_size = 4}}};
  EXPECT_EQ(MicroBatchCount(mixed, 1024), 32);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
