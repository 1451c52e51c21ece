#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

Problem ProblemOf(const std::string& framework) {
  Question question = TinyQuestion();
  question.model = framework == "megatron-deepspeed" ? Gpt3_175b() : Llama2_7b();
  question.workload.framework_name = framework;
  question.workload.sequence_length = 4096;
  question.workload.global_batch_size = 128;
  question.cluster.pools = {Nodes(1, 8)};
  question.cluster.pools.front().chip =
      framework == "mindspeed" ? "huawei-ascend-910b-313t" : "nvidia-h100-sxm5-80gb";
  // All states of GPT-3 take more than the host that is assumed.
  question.cluster.pools.front().host.memory = GiB(8192);
  return Resolved(question);
}

struct Named {
  std::string name;
  ParallelPlan plan;
};

// Returns plans of 8 devices that differ in a word of the plan, for each stage of ZeRO.
std::vector<Named> Plans() {
  std::vector<Named> plans;
  for (const int zero : {0, 1, 2, 3}) {
    for (const ContextParallelKind kind :
         {ContextParallelKind::kRing, ContextParallelKind::kUlysses,
          ContextParallelKind::kAllGather, ContextParallelKind::kHybrid}) {
      plans.push_back({std::string(Word(kind)),
                       {.data_parallel = 4,
                        .context_parallel = 2,
                        .context_parallel_kind = kind,
                        .zero_stage = zero}});
    }
    for (const Schedule schedule :
         {Schedule::kGpipe, Schedule::k1f1b, Schedule::kInterleaved1f1b, Schedule::kZbH1,
          Schedule::kZbV, Schedule::kDualpipe, Schedule::kDualpipeV, Schedule::kChimera}) {
      const int parts = schedule == Schedule::kInterleaved1f1b ? 2 : 1;
      plans.push_back({std::string(Word(schedule)),
                       {.pipeline_parallel = 4,
                        .virtual_pipeline = parts,
                        .data_parallel = 2,
                        .zero_stage = zero,
                        .schedule = schedule}});
    }
    plans.push_back(
        {"offload", {.data_parallel = 8, .zero_stage = zero, .optimizer_offload_ratio = 1}});
    plans.push_back({"plain", {.data_parallel = 8, .zero_stage = zero}});
  }
  return plans;
}

// A plan that evaluate prices without a warning has an export, or there is a rule of legality with
// the framework's reason. The exceptions are features that the frameworks have and the exports do
// not write: offload by MaxText's optimizer_memory_host_offload, DeepSpeed's offload_optimizer
// under Megatron-DeepSpeed and MindSpeed's --swap-optimizer, and the schedule dualpipe_v.
TEST(LegalFieldsTest, ExportsHaveTheFieldsOfLegalPlans) {
  std::set<std::string> missing;
  for (const std::string& framework : ExportFrameworks()) {
    if (ProfileOfExport(framework) != framework) continue;
    const Problem problem = ProblemOf(framework);
    for (const auto& [name, plan] : Plans()) {
      const auto resolved = ResolveLaunchedPlan(StatedPlan(plan), problem, "plan");
      if (!resolved.ok()) continue;
      if (!CautionsAbout(ToEstimatorProblem(problem), resolved->plan).empty()) continue;
      const auto config = ExportPlan(framework, problem, resolved->plan);
      for (const FieldViolation& violation : FieldViolations(config.status())) {
        if (violation.field.starts_with("plan.")) missing.insert(framework + ": " + name);
      }
    }
  }
  EXPECT_THAT(missing, testing::ElementsAre("maxtext: offload", "megatron-deepspeed: offload",
                                            "mindspeed: dualpipe_v", "mindspeed: offload",
                                            "paddle: dualpipe_v"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
