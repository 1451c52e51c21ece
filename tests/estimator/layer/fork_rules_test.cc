// Plans that a framework itself refuses and a public fork of it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kH100[] = "nvidia-h100-sxm5-80gb";

const ParallelPlan kZeroBubble = {.pipeline_parallel = 2, .schedule = Schedule::kZbH1};
const ParallelPlan kDualPipe = {.pipeline_parallel = 2, .schedule = Schedule::kDualpipe};
const ParallelPlan kUneven = {.pipeline_parallel = 4, .layers_per_stage = {19, 21, 21, 19}};
const ParallelPlan kSplitSequence = {.tensor_parallel = 2, .sequence_parallel = true};

// The rules that a plan breaks.
struct Broken {
  std::vector<const LegalityRule*> refusals = {};
  std::vector<std::string> cautions = {};  // their sentences
  bool is_searched = true;
};

Broken BrokenBy(const ParallelPlan& plan, const std::string& framework, const std::string& version,
                const std::string& chip) {
  const OwnedProblem problem = FrameworkProblem(Llama2_70b(), chip, 32, framework);
  const auto rules = LegalityRulesOf(framework, version);
  const EstimatorProblem ruled = {.model = problem.model,
                                  .workload = problem.workload,
                                  .profile = problem.profile,
                                  .cluster = problem.cluster,
                                  .legality = rules};
  Broken broken = {.refusals = BrokenRules(ruled, plan)};
  for (const LegalityRule* rule : CautionsAbout(ruled, plan)) {
    broken.cautions.emplace_back(rule->sentence);
    if (BrokenRule(ruled, plan, rule->decided_by) != nullptr) broken.is_searched = false;
  }
  return broken;
}

// They are evaluated, because they ran, and no search takes them, because the framework itself has
// no flag for them.
void ExpectCaution(const Broken& broken, const std::string& sentence) {
  EXPECT_THAT(broken.refusals, IsEmpty());
  EXPECT_THAT(broken.cautions, Contains(HasSubstr(sentence)));
  EXPECT_FALSE(broken.is_searched);
}

TEST(ForkRulesTest, MegatronLmHasAForkForZeroBubbles) {
  ExpectCaution(BrokenBy(kZeroBubble, "megatron-lm", "2023", kH100), "need a fork");
  ExpectCaution(BrokenBy(kUneven, "megatron-lm", "2023", kH100), "needs the fork");
  EXPECT_THAT(BrokenBy(kDualPipe, "megatron-lm", "2023", kH100).refusals, SizeIs(1));
  EXPECT_THAT(BrokenBy(kZeroBubble, "megatron-core", "0.14", kH100).refusals, SizeIs(1));
}

TEST(ForkRulesTest, MegatronDeepSpeedHasAForkForGaudi) {
  ParallelPlan selective = {.pipeline_parallel = 2};
  selective.recompute.granularity = RecomputeGranularity::kSelective;
  ExpectCaution(BrokenBy(kSplitSequence, "megatron-deepspeed", "2022", "intel-gaudi2"),
                "fork for Gaudi");
  ExpectCaution(BrokenBy(selective, "megatron-deepspeed", "2022", "intel-gaudi2"),
                "fork for Gaudi");
  EXPECT_THAT(BrokenBy(kSplitSequence, "megatron-deepspeed", "2022", kH100).refusals, SizeIs(1));
  EXPECT_THAT(BrokenBy(selective, "megatron-deepspeed", "2022", kH100).refusals, SizeIs(1));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
