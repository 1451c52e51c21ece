#include "server/tuner/search/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/baseline.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

Problem ProblemOf(const ModelSpec& model, int nodes, const std::string& framework,
                  int sequence_length = 4096) {
  Question question = TinyQuestion();
  question.model = model;
  question.workload.framework_name = framework;
  question.workload.sequence_length = sequence_length;
  question.workload.global_batch_size = 1024;
  question.cluster.pools = {Nodes(nodes, 8)};
  return Resolved(question);
}

std::string NameOf(const Recipe* recipe) {
  return recipe == nullptr ? "none" : std::string(recipe->model);
}

TEST(RecipeTest, IsOfTheFrameworkAndTheSize) {
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Llama2_70b(), 16, "megatron-core"))), "Llama 3 70B");
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Llama2_7b(), 1, "mindspeed"))), "Llama 2 7B");
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Llama2_7b(), 16, "torchtitan"))), "Llama 3 8B");
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(DeepseekV3(), 64, "megatron-core"))), "DeepSeek-V3");
  // A fourth of the recipe's devices, another framework, experts instead of a dense model.
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Llama2_70b(), 2, "megatron-core"))), "none");
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Llama2_70b(), 16, "deepspeed"))), "none");
  EXPECT_EQ(NameOf(NearestRecipe(ProblemOf(Mixtral_8x7b(), 64, "megatron-core"))), "none");
}

// tp4 pp4 vp5 on 128 devices, with context parallelism of 2 at the recipe's own length only.
TEST(RecipeTest, FillsTheDevices) {
  for (const int sequence : {4096, 8192}) {
    const Problem problem = ProblemOf(Llama2_70b(), 16, "megatron-core", sequence);
    const auto plan = PlanOf(*NearestRecipe(problem), problem);
    ASSERT_TRUE(plan.has_value());
    const int context = sequence == 8192 ? 2 : 1;
    EXPECT_EQ(plan->tensor_parallel, 4);
    EXPECT_EQ(plan->pipeline_parallel, 4);
    EXPECT_EQ(plan->virtual_pipeline, 5);
    EXPECT_EQ(plan->context_parallel, context);
    EXPECT_EQ(plan->data_parallel, 8 / context);
    EXPECT_EQ(plan->schedule, Schedule::kInterleaved1f1b);
    EXPECT_TRUE(CheckPlan(*plan, problem, "plan").empty());
    EXPECT_TRUE(BrokenRules(ToEstimatorProblem(problem), *plan).empty());
  }
}

// 126 layers, embedding and loss are 128 parts: 16 for each of 8 stages.
TEST(RecipeTest, CountsTheEndsWhereTheRecipeDoes) {
  const Problem problem = ProblemOf(Llama31_405b(), 128, "megatron-core", 8192);
  const auto plan = PlanOf(*NearestRecipe(problem), problem);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->layers_per_stage, testing::ElementsAre(15, 16, 16, 16, 16, 16, 16, 15));
  EXPECT_TRUE(CheckPlan(*plan, problem, "plan").empty());
  EXPECT_TRUE(BrokenRules(ToEstimatorProblem(problem), *plan).empty());
  EXPECT_TRUE(CautionsAbout(ToEstimatorProblem(problem), *plan).empty());
}

// A published recipe runs: its experts divide the devices, and its stages the layers.
TEST(RecipeTest, RecipesOfExpertsAreLegal) {
  ModelSpec qwen3_235b = Mixtral_8x7b();
  qwen3_235b.layer_count = 94;
  qwen3_235b.head_dim = 128;
  qwen3_235b.attention_head_count = 64;
  qwen3_235b.kv_head_count = 4;
  qwen3_235b.vocab_size = 151936;
  qwen3_235b.moe =
      MoeSpec{.expert_count = 128, .experts_per_token = 8, .expert_ffn_hidden_size = 1536};
  const std::vector<std::pair<Problem, std::string>> cases = {
      {ProblemOf(Mixtral_8x7b(), 8, "megatron-core"), "Mixtral 8x7B"},
      {ProblemOf(qwen3_235b, 32, "megatron-core"), "Qwen3 235B-A22B"},
      {ProblemOf(DeepseekV3(), 64, "megatron-core"), "DeepSeek-V3"},
      {ProblemOf(qwen3_235b, 32, "mindspeed"), "Qwen3 235B-A22B"},
      {ProblemOf(DeepseekV3(), 32, "maxtext", 8192), "DeepSeek-V3"}};
  for (const auto& [problem, name] : cases) {
    const Recipe* const recipe = NearestRecipe(problem);
    EXPECT_EQ(NameOf(recipe), name);
    const auto plan = PlanOf(*recipe, problem);
    ASSERT_TRUE(plan.has_value()) << name;
    EXPECT_TRUE(CheckPlan(*plan, problem, "plan").empty()) << name;
    EXPECT_TRUE(BrokenRules(ToEstimatorProblem(problem), *plan).empty()) << name;
  }
}

// The answer says where its baseline comes from.
TEST(RecipeTest, IsTheBaselineAndSaysSo) {
  const auto source = [](const Problem& problem) {
    AnalyticModel model(ToEstimatorProblem(problem));
    std::vector<AppliedDefault> applied;
    const auto plan = DefaultBaseline(problem, model, applied);
    EXPECT_TRUE(plan.has_value());
    return applied.empty() ? "" : applied.front().field + ": " + applied.front().value;
  };
  EXPECT_EQ(source(ProblemOf(Llama2_70b(), 16, "megatron-core")), "baseline: recipe");
  EXPECT_EQ(source(ProblemOf(Llama2_70b(), 16, "generic")), "baseline: rule of thumb");
}

// At 4,096 tokens the recipe of 8,192 loses its context parallelism; with 45 GiB it recomputes.
TEST(RecipeTest, SaysWhatIsNotTheRecipes) {
  Problem problem = ProblemOf(Llama2_70b(), 16, "megatron-core");
  const auto source = [&] {
    AnalyticModel model(ToEstimatorProblem(problem));
    std::vector<AppliedDefault> applied;
    DefaultBaseline(problem, model, applied);
    return applied.front().source;
  };
  const std::string shorter =
      "NeMo performance summary: Llama 3 70B on H100; without its context parallelism";
  EXPECT_EQ(source(), shorter);
  problem.cluster.pools.front().memory_capacity = GiB(45);
  EXPECT_EQ(source(), shorter + "; with recomputation, so that it fits");
}

// A recipe that does not say what it recomputes gets as little as fits: with more memory fewer
// layers, as many in each chunk.
TEST(RecipeTest, RecomputesAsFewLayersAsFit) {
  Problem problem = ProblemOf(Llama2_70b(), 16, "megatron-core");
  std::set<int> counts;
  int last = 1000;
  for (int gib = 20; gib < 120; ++gib) {
    problem.cluster.pools.front().memory_capacity = GiB(gib);
    AnalyticModel model(ToEstimatorProblem(problem));
    std::vector<AppliedDefault> applied;
    const auto baseline = DefaultBaseline(problem, model, applied);
    if (!baseline.has_value() || baseline->origin != BaselineOrigin::kRecipe) continue;
    const RecomputePlan& recompute = baseline->plan.recompute;
    int count = recompute.granularity == RecomputeGranularity::kFull ? 20 : 0;
    if (!recompute.layer_counts.empty()) count = recompute.layer_counts.front();
    EXPECT_EQ(count % baseline->plan.virtual_pipeline, 0) << "an exporter has no flag for it";
    EXPECT_LE(count, last) << gib;
    last = count;
    counts.insert(count);
  }
  EXPECT_GT(counts.size(), 3U) << "the memory does not tell the plans apart";
  EXPECT_TRUE(counts.contains(0));
}

TEST(BaselineByThumbTest, ShardsWeightsFirstWhereTheFrameworkDoes) {
  for (const char* framework : {"pytorch-fsdp", "deepspeed", "torchtitan"}) {
    const Problem problem = ProblemOf(Llama2_70b(), 16, framework);
    AnalyticModel model(ToEstimatorProblem(problem));
    const auto plan = RuleOfThumbBaseline(problem, model);
    ASSERT_TRUE(plan.has_value()) << framework;
    EXPECT_EQ(plan->data_parallel, 128) << framework;
    EXPECT_EQ(plan->zero_stage, 3) << framework;
    EXPECT_EQ(plan->recompute.granularity, RecomputeGranularity::kFull) << framework;
  }
  const Problem other = ProblemOf(Llama2_70b(), 16, "megatron-core");
  AnalyticModel model(ToEstimatorProblem(other));
  EXPECT_GT(RuleOfThumbBaseline(other, model)->tensor_parallel, 1);
}

// Frameworks without ZeRO 1, sequence parallelism or pipelines have a baseline too, which can be
// launched.
TEST(BaselineByThumbTest, IsWhatTheFrameworkCanRun) {
  for (const char* framework : {"torchtitan", "pytorch-fsdp", "deepspeed", "nanotron", "maxtext",
                                "paddle", "mindspeed", "megatron-lm", "megatron-deepspeed"}) {
    const Problem problem = ProblemOf(Llama2_70b(), 16, framework);
    AnalyticModel model(ToEstimatorProblem(problem));
    const auto plan = RuleOfThumbBaseline(problem, model);
    ASSERT_TRUE(plan.has_value()) << framework;
    // Megatron-DeepSpeed's exporter has GPT models only.
    if (std::string(framework) == "megatron-deepspeed") continue;
    const auto config = ExportPlan(framework, problem, *plan);
    EXPECT_TRUE(config.ok()) << framework << ": " << config.status();
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
