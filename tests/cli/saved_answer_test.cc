#include "cli/reports/saved_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "search_space/base/status.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(MakeSaveFolderTest, TakesNoFolderOfAnotherRun) {
  const TemporaryFolder home;
  EXPECT_TRUE(MakeSaveFolder(home.File("a/b")).ok());
  EXPECT_TRUE(MakeSaveFolder(home.File("a/b")).ok());  // it is empty
  home.Write("a/b/answer.json", "{}");
  EXPECT_EQ(FieldViolations(MakeSaveFolder(home.File("a/b"))),
            (std::vector<FieldViolation>{
                {.field = "--save",
                 .description = home.File("a/b") +
                                "; has other files (answer.json); must be a new or an empty "
                                "folder"}}));
  EXPECT_FALSE(MakeSaveFolder(home.File("a/b/answer.json")).ok());  // it is no folder
}

v1::GetStudyResponse AnswerWithFile(const std::string& name) {
  v1::GetStudyResponse answer;
  v1::RankedPlan& plan = *answer.mutable_result()->add_plans();
  plan.mutable_estimate()->set_step_time_seconds(2);
  (*plan.mutable_estimate()->mutable_breakdown_seconds())["matmul"] = 1.5;
  (*plan.mutable_estimate()->mutable_memory_breakdown_bytes())["weights"] = std::int64_t{1} << 30;
  (*plan.mutable_exports())["nanotron"] = "a: 1\n";
  v1::Launch& launch = (*plan.mutable_launches())["nanotron"];
  launch.set_file_name(name);
  launch.set_command("torchrun train.py");
  launch.add_left_out("data\nrm -rf /");
  return answer;
}

TEST(SaveAnswerTest, WritesTheFilesOfThePlan) {
  const TemporaryFolder home;
  ASSERT_TRUE(SaveAnswer(home.path(), AnswerWithFile("conf/plan.yaml"), "{}\n", {}).ok());
  EXPECT_EQ(ReadFile(home.File("answer.json")), "{}\n");
  EXPECT_EQ(ReadFile(home.File("conf/plan.yaml")), "a: 1\n");
  // A note of a server cannot become a command.
  EXPECT_EQ(ReadFile(home.File("launch.sh")),
            "#!/bin/sh\n# Not stated here: data rm -rf /\ntorchrun train.py\n");
}

TEST(SaveAnswerTest, DrawsTheFirstPlan) {
  const TemporaryFolder home;
  ASSERT_TRUE(SaveAnswer(home.path(), AnswerWithFile("plan.yaml"), "{}\n", {}).ok());
  EXPECT_THAT(ReadFile(home.File("step_times.svg")), testing::HasSubstr(">2.00 s</text>"));
  EXPECT_THAT(ReadFile(home.File("time.svg")), testing::HasSubstr(">matmul</text>"));
  EXPECT_THAT(ReadFile(home.File("memory.svg")), testing::HasSubstr(">1.0 GiB</text>"));
}

TEST(SaveAnswerTest, AServerCannotNameAFileElsewhere) {
  for (const char* const name : {"../plan.yaml", "/tmp/plan.yaml", "a/../../plan.yaml"}) {
    const TemporaryFolder home;
    const absl::Status status = SaveAnswer(home.File("in"), AnswerWithFile(name), "{}", {});
    EXPECT_EQ(Reason(status), "INVALID_FIELDS") << name;
    EXPECT_EQ(ReadFile(home.File("plan.yaml")), "");
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
