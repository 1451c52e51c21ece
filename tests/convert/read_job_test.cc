#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<StudyRequest> ReadWithJob(const std::string& launcher, const std::string& job) {
  const std::string json = fmt::format(
      R"({{"model": {{"name": "tiny", "layer_count": 4, "hidden_size": 512,
                      "ffn_hidden_size": 2048, "attention_head_count": 8, "vocab_size": 32000,
                      "mlp": "gelu", "norm": "layernorm"}},
           "workload": {{"sequence_length": 1024, "global_batch_size": 64}},
           "cluster": {{"name": "c",
                        "pools": [{{"chip": "nvidia-a100-sxm4-80gb", "node_count": 1}}]}},
           "trials": {{"launcher": "{}", "max_trials": 1, "job": {{"folder": "/j", {}}}}}}})",
      launcher, job);
  v1::TuneRequest request;
  std::vector<FieldViolation> mistakes = ParseJson(json, "", request);
  ASSIGN_OR_RETURN(ResolvedStudy study,
                   FromWire(request, LoadKnowledge("").value(), std::move(mistakes)));
  return std::move(study.request);
}

// Returns "field: what is wrong" for each mistake.
std::vector<std::string> JobMistakes(const std::string& launcher, const std::string& job) {
  std::vector<std::string> found;
  for (const FieldViolation& violation : FieldViolations(ReadWithJob(launcher, job).status())) {
    found.push_back(fmt::format("{}: {}", violation.field, violation.description));
  }
  return found;
}

constexpr char kLocalOptions[] =
    R"("memory_limit_bytes": 67108864, "visible_devices_variable": "CUDA_VISIBLE_DEVICES")";

TEST(ReadJobTest, OptionsOfThisMachine) {
  const auto read = ReadWithJob("local", kLocalOptions);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->trials->job->memory_limit, Bytes{64 << 20});
  EXPECT_EQ(read->trials->job->visible_devices_variable, "CUDA_VISIBLE_DEVICES");
}

TEST(ReadJobTest, OptionsOfThisMachineAreOfLauncherLocalAlone) {
  EXPECT_THAT(
      JobMistakes("slurm", kLocalOptions),
      ElementsAre(
          "trials.job.memory_limit_bytes: 67108864; launcher slurm does not use it: "
          "give Slurm the engine flag --mem or --mem-per-cpu",
          "trials.job.visible_devices_variable: 'CUDA_VISIBLE_DEVICES'; launcher slurm does "
          "not use it: it shows a job its devices itself"));
  EXPECT_THAT(JobMistakes("kubernetes", std::string(kLocalOptions) + R"(, "kubernetes": {
                  "server": "https://k", "namespace": "n", "image": "i"})"),
              ElementsAre(HasSubstr("67108864; launcher kubernetes does not use it: set the "
                                    "resources of the Kubernetes job template"),
                          HasSubstr("'CUDA_VISIBLE_DEVICES'; launcher kubernetes does not")));
}

TEST(ReadJobTest, OptionsOfThisMachineThatCannotBe) {
  for (const char* const name : {"", "A=1", "A B", "1A"}) {
    const std::string job =
        fmt::format(R"("memory_limit_bytes": 67108863, "visible_devices_variable": "{}")", name);
    EXPECT_THAT(
        JobMistakes("local", job),
        ElementsAre("trials.job.memory_limit_bytes: 67108863; must be >= 67108864",
                    fmt::format("trials.job.visible_devices_variable: '{}'; must be a variable's "
                                "name, of letters, digits and _",
                                name)));
  }
  for (const char* const name : {"RANK", "LOCAL_RANK", "MESHWRIGHT_DEVICES"}) {
    EXPECT_THAT(
        JobMistakes("local", fmt::format(R"("visible_devices_variable": "{}")", name)),
        ElementsAre(fmt::format("trials.job.visible_devices_variable: '{}'; must be absent, "
                                "because the launcher sets it",
                                name)));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
