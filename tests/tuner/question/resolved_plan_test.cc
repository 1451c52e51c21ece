#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/fields.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::IsEmpty;

TEST(ResolvePlanTest, AppliesAndEchoesDefaults) {
  const Problem problem = Resolved(TinyQuestion());  // 4 devices, 4 layers
  const auto resolved = ResolvePlan({.pipeline_parallel = 2}, problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const ParallelPlan expected = {
      .pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {2, 2}};
  EXPECT_EQ(resolved->plan, expected);
  EXPECT_THAT(resolved->applied_defaults,
              testing::IsSupersetOf(std::vector<AppliedDefault>{
                  {"plan.tensor_parallel", "1", "plan default"},
                  {"plan.data_parallel", "2", "devices / (tensor x pipeline x context)"},
                  {"plan.micro_batch_size", "1", "plan default"},
                  {"plan.schedule", "1f1b", "plan default"},
                  {"plan.recompute.granularity", "none", "plan default"},
                  {"plan.layers_per_stage", "2 2", "framework profile generic"},
              }));
  EXPECT_THAT(DefaultedFields(resolved->applied_defaults),
              testing::Not(Contains("plan.pipeline_parallel")));
}

TEST(ResolvePlanTest, VirtualStagesInterleave) {
  const Problem problem = Resolved(TinyQuestion());
  const auto resolved =
      ResolvePlan({.pipeline_parallel = 2, .virtual_pipeline = 2}, problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->plan.schedule, Schedule::kInterleaved1f1b);
}

TEST(ResolvePlanTest, AStatedPlanComesBackUnchanged) {
  const Problem problem = Resolved(TinyQuestion());
  ParallelPlan plan = {.tensor_parallel = 2,
                       .sequence_parallel = true,
                       .pipeline_parallel = 2,
                       .micro_batch_size = 4,
                       .zero_stage = 1,
                       .zero_group_size = 1,
                       .layers_per_stage = {1, 3},
                       .optimizer_offload_ratio = 0.5};
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {1, 2}};
  const auto resolved = ResolvePlan(StatedPlan(plan), problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->plan, plan);
  EXPECT_THAT(DefaultedFields(resolved->applied_defaults), IsEmpty());
}

TEST(ResolvePlanTest, ActivationOffloadComesBackUnchanged) {
  const Problem problem = Resolved(TinyQuestion());
  const ParallelPlan plan = {
      .data_parallel = 4, .layers_per_stage = {4}, .activation_offload_ratio = 0.5};
  const auto resolved = ResolvePlan(StatedPlan(plan), problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->plan, plan);
}

// Stated only if there are any, so that answers without them stay as they were.
TEST(ResolvePlanTest, WholeWeightsComeBackUnchanged) {
  const Problem problem = Resolved(TinyQuestion());
  ParallelPlan plan = {.data_parallel = 4, .zero_stage = 3, .layers_per_stage = {4}};
  EXPECT_FALSE(StatedPlan(plan).whole_weights_ratio.has_value());
  plan.whole_weights_ratio = 0.5;
  EXPECT_EQ(StatedPlan(plan).whole_weights_ratio, 0.5);
  const auto resolved = ResolvePlan(StatedPlan(plan), problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->plan, plan);
}

TEST(ResolvePlanTest, NamesEveryViolationUnderItsPrefix) {
  const Problem problem = Resolved(TinyQuestion());
  const auto resolved = ResolvePlan({.tensor_parallel = 3,
                                     .virtual_pipeline = 2,
                                     .data_parallel = 4,
                                     .micro_batch_size = 3,
                                     .layers_per_stage = {5}},
                                    problem, "baseline");
  ASSERT_FALSE(resolved.ok());
  // 3 x 4 devices of 4; 12 sequences of 16; 3 of 16 heads; chunks of one stage; 5 layers of 4.
  EXPECT_THAT(Fields(resolved.status()),
              testing::UnorderedElementsAre("baseline.data_parallel", "baseline.micro_batch_size",
                                            "baseline.tensor_parallel", "baseline.virtual_pipeline",
                                            "baseline.layers_per_stage"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
