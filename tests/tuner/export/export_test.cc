#include "server/tuner/export/export.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "estimator/frameworks/framework_library.h"
#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ExportTest, UnknownFrameworkListsKnownOnes) {
  const auto text = ExportPlan("horovod", Llama70b(), DensePlan());
  EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(text.status()), "UNKNOWN_EXPORT_FRAMEWORK");
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("megatron-core"));
}

TEST(ExportTest, UnknownFrameworkSuggestsTheOneThatWasMeant) {
  const auto error = [](const char* framework) {
    return std::string(ExportPlan(framework, Llama70b(), DensePlan()).status().message());
  };
  EXPECT_THAT(error("megatron"), testing::EndsWith("; did you mean \"megatron-core\"?"));
  EXPECT_THAT(error("NeMo"), testing::EndsWith("; did you mean \"nemo\"?"));
  EXPECT_THAT(error("fsdp"), testing::EndsWith("; did you mean \"pytorch-fsdp\"?"));
  EXPECT_THAT(error("torchtitn"), testing::EndsWith("; did you mean \"torchtitan\"?"));
  EXPECT_THAT(error("horovod"), Not(HasSubstr("did you mean")));
}

// A question that names such a framework is told of its export.
TEST(ExportTest, ExportsOfOtherFrameworksPlansAreInTheirProfiles) {
  const auto library = FrameworkLibrary::LoadBuiltIn();
  ASSERT_TRUE(library.ok()) << library.status();
  for (const std::string& framework : ExportFrameworks()) {
    const FrameworkEntry* run = library->RunBy(framework);
    const bool has_profile = ProfileOfExport(framework) == framework;
    ASSERT_EQ(run == nullptr, has_profile) << framework;
    if (run != nullptr) {
      EXPECT_EQ(run->profile.name, ProfileOfExport(framework));
    }
  }
}

TEST(ExportTest, ResultGetsExportsAndOneWarningPerReason) {
  ParallelPlan refused = DensePlan();
  refused.schedule = Schedule::kZbH1;
  StudyResult result;
  result.plans = {{.plan = DensePlan()}, {.plan = refused}, {.plan = refused}};
  result.baseline = RankedPlan{.plan = DensePlan()};
  AddExports(Llama70b(), result);
  EXPECT_EQ(result.plans[0].exports.count("megatron-core"), 1U);
  EXPECT_TRUE(result.plans[1].exports.empty());
  EXPECT_EQ(result.baseline->exports, result.plans[0].exports);
  EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("plan.schedule = zb_h1")));
  EXPECT_THAT(result.warnings.front(), Not(HasSubstr("workload")));
}

TEST(ExportTest, OnlyTheNamedFrameworkIsExported) {
  for (const char* framework : {"generic", "jax", "internevo", "aleph-alpha-scaling"}) {
    Problem problem = Llama70b();
    problem.workload.framework_name = framework;
    StudyResult result;
    result.plans = {{.plan = DensePlan()}, {.plan = DensePlan()}};
    AddExports(problem, result);
    EXPECT_TRUE(result.plans[0].exports.empty()) << framework;
    EXPECT_THAT(result.warnings,
                ElementsAre(HasSubstr(fmt::format(
                    "no launch configuration for framework {}, for which there is no exporter",
                    framework))));
  }
}

// 4 x 4 x 8 = 128 processes are 16 nodes of 8 devices.
TEST(ExportTest, CommandStartsAllProcesses) {
  const auto config = ExportPlan("megatron-core", Llama70b(), DensePlan());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->command,
            "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 16 --nproc-per-node 8 --rdzv-backend "
            "c10d --rdzv-endpoint "
            "$MASTER_ADDR:29500 pretrain_gpt.py");
  EXPECT_EQ(config->file_name, "");
  EXPECT_EQ(config->versions, "0.12 to 0.14");
}

// A ModelSpec says nothing of these, so the answer has to.
TEST(ExportTest, SaysWhichFactsOfTheModelAreMissing) {
  const auto config = ExportPlan("megatron-core", Llama70b(), DensePlan());
  ASSERT_TRUE(config.ok());
  for (const char* flag : {"--add-qkv-bias", "--qk-layernorm", "--rotary-base", "--norm-epsilon",
                           "--tokenizer-type", "--data-path", "--lr", "--save"}) {
    EXPECT_THAT(config->left_out, Contains(HasSubstr(flag))) << flag;
  }
  const auto experts = ExportPlan("megatron-core", DeepseekProblem(), {.data_parallel = 8});
  ASSERT_TRUE(experts.ok()) << experts.status();
  for (const char* flag : {"--moe-router-score-function", "--moe-router-num-groups",
                           "--moe-router-enable-expert-bias", "--mtp-loss-scaling-factor"}) {
    EXPECT_THAT(experts->left_out, Contains(HasSubstr(flag))) << flag;
  }
}

// A model whose layers all have experts states no size of a dense layer.
TEST(ExportTest, LeavesOutASizeThatIsNotThere) {
  Problem problem = Llama70b();
  problem.model = Mixtral_8x7b();
  EXPECT_THAT(Exported("megatron-core", problem, {.data_parallel = 8}),
              Not(HasSubstr("--ffn-hidden-size 0")));
}

bool NeedsNothing(const EstimatorProblem&, const ParallelPlan&) { return true; }

TEST(ExportTest, RefusesWhatTheFrameworkRefusesToRun) {
  const LegalityRule rule = {.frameworks = "megatron-core",
                             .field = "tensor_parallel",
                             .sentence = "it is a test",
                             .source = "here",
                             .is_broken = &NeedsNothing};
  Problem problem = Llama70b();
  problem.legality = {&rule};
  const auto config = ExportPlan("megatron-core", problem, DensePlan());
  EXPECT_EQ(Reason(config.status()), "NOT_EXPRESSIBLE");
  EXPECT_THAT(std::string(config.status().message()),
              HasSubstr("plan.tensor_parallel = 4; megatron-core refuses it: it is a test"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
