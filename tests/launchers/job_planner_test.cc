#include "server/launchers/job_planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/local/local_engine.h"
#include "server/launchers/local/local_jobs.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/trial.h"
#include "tests/files/temporary_folder.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Pair;

class JobPlannerTest : public testing::Test {
 protected:
  JobPlannerTest() {
    request_.launcher = kSlurmLauncher;
    request_.job = JobTemplate{.folder = folder_, .workloads_folder = "/w"};
  }

  JobSpec Make() {
    const auto planner = MakeJobPlanner(request_, problem_);
    EXPECT_TRUE(planner.ok()) << planner.status();
    auto spec = MakeJobSpec(*planner, {.tensor_parallel = 2, .data_parallel = 2},
                            {.id = "s-t1-a1", .token = 7}, "{}");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *std::move(spec);
  }

  // Returns the part of the command after the harness.
  static std::vector<std::string> Inner(const JobSpec& spec) {
    const auto dashes = std::ranges::find(spec.command, "--");
    return {std::next(dashes), spec.command.end()};
  }

  std::vector<std::string> Fields() {
    std::vector<std::string> fields;
    for (const FieldViolation& found :
         FieldViolations(MakeJobPlanner(request_, problem_).status())) {
      fields.push_back(found.field);
    }
    return fields;
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  Problem problem_ = Resolved(TinyQuestion());
  TrialRequest request_;
};

TEST_F(JobPlannerTest, TheReferenceStepUnderTheHarness) {
  request_.job->metrics = {.warmup_steps = 3, .max_steps = 9, .hang_limit = Seconds(30)};
  const JobSpec spec = Make();
  EXPECT_EQ(spec.command[1], "/w/harness.py");
  EXPECT_THAT(spec.command, IsSupersetOf({"--attempt", "s-t1-a1", "--token", "7", "--folder",
                                          folder_.c_str(), "--hang-limit", "30"}));
  EXPECT_THAT(Inner(spec),
              ElementsAre("python3", "/w/train_step.py", "--case", folder_ + "/s-t1-a1.case.json",
                          "--device", "cuda", "--warmup", "3", "--steps", "9"));
  EXPECT_EQ(spec.processes_per_node, problem_.cluster.pools.front().devices_per_node);
  std::ifstream file(folder_ + "/s-t1-a1.case.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{}\n");
}

TEST_F(JobPlannerTest, OnesOwnCommand) {
  setenv("MESHWRIGHT_TEST_OWN", "mine", 1);
  request_.job->command = {"train", "--tp={tensor_parallel}", "{flags}", "{attempt}"};
  request_.job->environment = {"A=1=2", "MESHWRIGHT_TEST_OWN"};
  request_.job->processes_per_node = 1;
  problem_.profile.name = "megatron-core";
  const JobSpec spec = Make();
  const std::vector<std::string> words = Inner(spec);
  EXPECT_EQ(words.at(1), "--tp=2");
  EXPECT_THAT(words, IsSupersetOf({"--tensor-model-parallel-size", "2"}));
  EXPECT_EQ(words.back(), "s-t1-a1");
  EXPECT_THAT(words, testing::Not(testing::Contains("\\")));
  EXPECT_THAT(spec.environment, ElementsAre(Pair("A", "1=2"), Pair("MESHWRIGHT_TEST_OWN", "mine")));
  EXPECT_EQ(spec.processes_per_node, 1);
}

TEST_F(JobPlannerTest, EveryMistakeIsNamed) {
  unsetenv("MESHWRIGHT_TEST_OWN");
  request_.launcher = kLocalLauncher;
  request_.job->command = {"{flags}"};
  request_.job->environment = {"MESHWRIGHT_TEST_OWN"};
  request_.job->folder = "/proc/no/such";
  problem_.profile.name = "torchtitan";
  problem_.cluster.pools.front().node_count = 2;
  EXPECT_THAT(Fields(), ElementsAre("trials.job.command", "trials.job.environment[0]",
                                    "cluster.pools[0].node_count", "trials.job.folder"));
}

TEST_F(JobPlannerTest, DevicesOfThisMachine) {
  request_.launcher = kLocalLauncher;
  request_.job->slots_folder = folder_ + "/slots";
  request_.job->memory_limit = Bytes{1 << 30};
  unsetenv("MESHWRIGHT_TEST_VISIBLE");
  LocalEngineOptions options = LocalOptionsOf(*request_.job, 4);
  EXPECT_EQ(options.slot_count, 4);
  EXPECT_EQ(options.slots_per_job, 4);
  EXPECT_EQ(options.memory_limit, Bytes{1 << 30});
  EXPECT_THAT(options.device_names, ElementsAre());
  request_.job->visible_devices_variable = "MESHWRIGHT_TEST_VISIBLE";
  options = LocalOptionsOf(*request_.job, 2);
  EXPECT_EQ(options.visible_devices_variable, "MESHWRIGHT_TEST_VISIBLE");
  EXPECT_THAT(options.device_names, ElementsAre("0", "1"));
  // The variable lists the machine's devices where the launcher runs, which may be more.
  setenv("MESHWRIGHT_TEST_VISIBLE", "4,GPU-a,7", 1);
  options = LocalOptionsOf(*request_.job, 2);
  EXPECT_THAT(options.device_names, ElementsAre("4", "GPU-a", "7"));
  EXPECT_EQ(options.slot_count, 3);
  EXPECT_EQ(options.slots_per_job, 2);
  request_.job->environment = {"MESHWRIGHT_TEST_VISIBLE=5,6,7,8"};
  EXPECT_EQ(LocalOptionsOf(*request_.job, 2).slot_count, 4);
  problem_.cluster.pools.front().node_count = 1;
  problem_.cluster.pools.front().devices_per_node = 5;
  EXPECT_THAT(Fields(), ElementsAre("trials.job.visible_devices_variable"));
  problem_.cluster.pools.front().devices_per_node = 2;
  for (const char* list : {"0,0,1", "0,,1"}) {
    request_.job->environment = {std::string("MESHWRIGHT_TEST_VISIBLE=") + list};
    EXPECT_THAT(Fields(), ElementsAre("trials.job.visible_devices_variable")) << list;
  }
  request_.job->environment = {"MESHWRIGHT_TEST_VISIBLE=0,1"};
  EXPECT_THAT(Fields(), ElementsAre());
  unsetenv("MESHWRIGHT_TEST_VISIBLE");
}

TEST_F(JobPlannerTest, ChipsThatTheReferenceStepDoesNotKnow) {
  problem_.cluster.pools.front().chip.id = "google-tpu-v5p";
  EXPECT_THAT(Fields(), ElementsAre("trials.job.command"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
