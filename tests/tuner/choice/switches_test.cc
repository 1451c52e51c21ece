#include "server/tuner/choice/switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Question On(const std::string& framework, const std::string& chip) {
  Question question = TinyQuestion();
  question.workload.framework_name = framework;
  question.cluster.pools.front().chip = chip;
  return question;
}

std::vector<std::string_view> FlagsOf(const Question& question) {
  const Problem problem = ResolveProblem(question, Known()).value();
  std::vector<std::string_view> flags;
  for (const Switch* const row : OpenSwitches(problem, question.workload)) {
    flags.push_back(row->flag);
  }
  return flags;
}

TEST(SwitchesTest, OnlyWhatIsOffAndNotStated) {
  Question question = On("megatron-core", "nvidia-h100-sxm5-80gb");
  EXPECT_THAT(FlagsOf(question), ElementsAre("--tp-comm-overlap", "--grad-reduce-in-bf16",
                                             "--cross-entropy-loss-fusion"));
  question.workload.overlap.tensor_parallel = false;
  question.workload.cross_entropy_kernel = KernelFusion::kFused;
  EXPECT_THAT(FlagsOf(question), ElementsAre("--grad-reduce-in-bf16"));
  question.workload.precision = Precision::kFp32;  // whose gradients are no others
  EXPECT_THAT(FlagsOf(question), IsEmpty());
  EXPECT_THAT(FlagsOf(On("maxtext", "nvidia-h100-sxm5-80gb")), IsEmpty());
}

// A search turns on by itself what published runs on the chip had, if the numbers stay the same.
TEST(SwitchesTest, AChipWithRunsMayTurnOn) {
  const Question question = On("megatron-core", "nvidia-h100-sxm5-80gb");
  const Problem problem = ResolveProblem(question, Known()).value();
  const auto open = OpenSwitches(problem, question.workload);
  ASSERT_EQ(open.size(), 3U);
  EXPECT_TRUE(MayTurnOn(*open[0], "nvidia-h100-sxm5-80gb"));
  EXPECT_FALSE(MayTurnOn(*open[0], "nvidia-a100-sxm4-80gb"));
  EXPECT_FALSE(MayTurnOn(*open[1], "nvidia-h100-sxm5-80gb"));
  EXPECT_FALSE(MayTurnOn(*open[2], "nvidia-h100-sxm5-80gb"));
}

// The exporter of each framework writes the flag of each of its switches.
TEST(SwitchesTest, EachHasAFlagThatIsExported) {
  int count = 0;
  for (const std::string& framework : ExportFrameworks()) {
    if (ProfileOfExport(framework) != framework) continue;
    const bool is_ascend = framework == "mindspeed";
    Question question =
        On(framework, is_ascend ? "huawei-ascend-910b-313t" : "nvidia-h100-sxm5-80gb");
    question.model = Llama2_7b();
    const auto resolved = ResolveProblem(question, Known());
    if (!resolved.ok()) continue;
    for (const Switch* const row : OpenSwitches(*resolved, question.workload)) {
      const std::vector<const Switch*> one = {row};
      const Problem problem = WithSettings(*resolved, SettingsOf(one));
      const ParallelPlan plan = {.tensor_parallel = 2,
                                 .sequence_parallel = true,
                                 .data_parallel = 2,
                                 .zero_stage = framework == "torchtitan" ? 3 : 1};
      const auto config = ExportPlan(framework, problem, plan);
      ASSERT_TRUE(config.ok()) << framework << " " << row->flag << ": " << config.status();
      const std::string_view flag = row->flag;
      const std::size_t dot = flag.rfind('.');  // of a section in TOML
      std::string key(dot == std::string_view::npos ? flag : flag.substr(dot + 1));
      const std::string text = config->text;
      if (text.find(key) == std::string::npos) {  // YAML
        key = key.substr(2);
        for (char& c : key) c = c == '-' ? '_' : c;
      }
      EXPECT_THAT(text, HasSubstr(key)) << framework;
      ++count;
    }
  }
  EXPECT_GE(count, 9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
