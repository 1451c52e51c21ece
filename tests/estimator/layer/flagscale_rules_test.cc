// Schedules that FlagScale has beside those of Megatron-Core.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A folded pipeline of Mixtral, whose experts are on two ranks.
const ParallelPlan kFolded = {.pipeline_parallel = 2,
                              .data_parallel = 2,
                              .expert_parallel = 2,
                              .schedule = Schedule::kDualpipeV};

// Returns the sentences of the rules that a plan of 4 devices breaks, joined by semicolons.
std::string RefusalOf(const ParallelPlan& plan, const std::string& version = "0.9",
                      bool has_tied_embeddings = false) {
  OwnedProblem problem = FrameworkProblem(Mixtral_8x7b(), "nvidia-h100-sxm5-80gb", 4, "flagscale");
  problem.model.tied_embeddings = has_tied_embeddings;
  const auto rules = LegalityRulesOf("flagscale", version);
  const EstimatorProblem ruled = {.model = problem.model,
                                  .workload = problem.workload,
                                  .profile = problem.profile,
                                  .cluster = problem.cluster,
                                  .legality = rules};
  std::string sentences;
  for (const LegalityRule* rule : BrokenRules(ruled, plan)) {
    sentences += (sentences.empty() ? "" : "; ") + std::string(rule->sentence);
  }
  return sentences;
}

TEST(FlagScaleRulesTest, FoldedPipelinesRunFromTheVersionThatHasThem) {
  EXPECT_EQ(RefusalOf(kFolded), "");
  EXPECT_EQ(RefusalOf(kFolded, "0.8"), "it runs 1f1b and interleaved_1f1b only");
  ParallelPlan other = kFolded;
  other.schedule = Schedule::kZbH1;
  EXPECT_EQ(RefusalOf(other), "it runs 1f1b, interleaved_1f1b and dualpipe_v only");
}

// It is not known which release has them first, so a search does not choose them.
TEST(FlagScaleRulesTest, FoldedPipelinesAreEstimatedWithACautionAndNotSearched) {
  const OwnedProblem problem =
      FrameworkProblem(Mixtral_8x7b(), "nvidia-h100-sxm5-80gb", 4, "flagscale");
  const auto rules = LegalityRulesOf("flagscale", "0.9");
  const EstimatorProblem ruled = {.model = problem.model,
                                  .workload = problem.workload,
                                  .profile = problem.profile,
                                  .cluster = problem.cluster,
                                  .legality = rules};
  EXPECT_EQ(CautionsAbout(ruled, kFolded).size(), 1U);
  EXPECT_NE(BrokenRule(ruled, kFolded, Dimension::kSchedule), nullptr);
  ParallelPlan plain = kFolded;
  plain.schedule = Schedule::k1f1b;
  EXPECT_TRUE(CautionsAbout(ruled, plain).empty());
  EXPECT_EQ(BrokenRule(ruled, plain, Dimension::kSchedule), nullptr);
}

TEST(FlagScaleRulesTest, FoldedPipelinesSpreadExperts) {
  ParallelPlan whole = kFolded;
  whole.expert_parallel = 1;
  EXPECT_EQ(RefusalOf(whole), "dualpipe_v is for experts that are spread over ranks");
}

TEST(FlagScaleRulesTest, FoldedPipelinesHaveAnOutputLayerOfTheirOwn) {
  EXPECT_EQ(RefusalOf(kFolded, "0.9", /*has_tied_embeddings=*/true),
            "dualpipe_v needs untied embeddings and no multi-token prediction");
}

// Mixtral has 32 layers.
TEST(FlagScaleRulesTest, StagesOfFoldedPipelinesHaveTwoEqualParts) {
  ParallelPlan odd = kFolded;
  odd.layers_per_stage = {17, 15};
  EXPECT_EQ(RefusalOf(odd), "dualpipe_v needs an even number of layers in each stage");
  odd.layers_per_stage = {18, 14};
  EXPECT_EQ(RefusalOf(odd), "");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
