#include "server/tuner/question/fingerprint.h"

#include <gtest/gtest.h>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  void (*change)(Question&);
  bool is_same_job = false;
  bool is_same_hardware = true;
};

const Case kCases[] = {
    {"nothing", [](Question&) {}, true},
    {"model_name", [](Question& q) { q.model.name = "other"; }, true},
    {"cluster_name", [](Question& q) { q.cluster.name = "other"; }, true},
    {"pool_name", [](Question& q) { q.cluster.pools[0].name = "other"; }, true},
    {"stated_default", [](Question& q) { q.workload.precision = Precision::kBf16; }, true},
    {"chip_alias", [](Question& q) { q.cluster.pools[0].chip = "A100-SXM4-80GB"; }, true},
    {"devices_of_their_own",
     [](Question& q) {
       q.cluster.pools[0].devices_per_node = 4;
       q.cluster.pools[0].physical_devices_per_node = 4;
     },
     true},
    {"layers", [](Question& q) { q.model.layer_count = 5; }},
    {"experts", [](Question& q) { q.model = TinyExperts(); }},
    {"batch", [](Question& q) { q.workload.global_batch_size = 32; }},
    {"dropout", [](Question& q) { q.workload.dropout_ratio = 0.2; }},
    {"overlap",
     [](Question& q) {
       q.workload.overlap.pipeline_p2p = !Resolved(q).workload.overlap.pipeline_p2p;
     }},
    {"version", [](Question& q) { q.workload.framework_version = "2022"; }},
    {"nodes", [](Question& q) { q.cluster.pools[0].node_count = 2; }, false, false},
    {"shared",
     [](Question& q) {
       q.cluster.pools[0].devices_per_node = 8;
       q.cluster.pools[0].physical_devices_per_node = 4;
       q.cluster.pools[0].memory_capacity = GiB(80);
     },
     false, false},
    {"memory", [](Question& q) { q.cluster.pools[0].memory_capacity = GiB(64); }, false, false},
    {"chip", [](Question& q) { q.cluster.pools[0].chip = "nvidia-h100-sxm5-80gb"; }, false, false},
    {"topology", [](Question& q) { q.cluster.topology.nodes_per_segment = 7; }, false, false}};

class FingerprintTest : public testing::TestWithParam<Case> {};

Question Megatron() {
  Question question = TinyQuestion();
  question.workload.framework_name = "megatron-lm";
  return question;
}

TEST_P(FingerprintTest, IsEqualWhereTheJobIs) {
  const Problem problem = Resolved(Megatron());
  Question question = Megatron();
  GetParam().change(question);
  const Problem other = Resolved(question);
  EXPECT_EQ(IsSameJob(problem, other), GetParam().is_same_job);
  EXPECT_EQ(JobFingerprint(problem) == JobFingerprint(other), GetParam().is_same_job);
  EXPECT_EQ(HardwareFingerprint(problem.cluster) == HardwareFingerprint(other.cluster),
            GetParam().is_same_hardware);
}

INSTANTIATE_TEST_SUITE_P(All, FingerprintTest, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(SoftwareFingerprintTest, CountsVersionAndFacts) {
  Question question = Megatron();
  const std::string before = SoftwareFingerprint(Resolved(question));
  question.workload.framework_facts = {{.name = "host_per_launch_seconds", .value = "0.00001"}};
  const std::string with_fact = SoftwareFingerprint(Resolved(question));
  question.workload.framework_version = "2022";
  EXPECT_NE(before, with_fact);
  EXPECT_NE(with_fact, SoftwareFingerprint(Resolved(question)));
}

TEST(ChipFingerprintTest, CountsEveryFigure) {
  ChipSpec chip = Resolved(TinyQuestion()).cluster.pools[0].chip;
  const std::string before = ChipFingerprint(chip);
  EXPECT_EQ(before, ChipFingerprint(Resolved(TinyQuestion()).cluster.pools[0].chip));
  ChipSpec faster = chip;
  faster.memory_bandwidth.rate *= 1.01;
  EXPECT_NE(before, ChipFingerprint(faster));
  ChipSpec refitted = chip;
  refitted.gemm.fill += 1;
  EXPECT_NE(before, ChipFingerprint(refitted));
  ChipSpec torus = chip;
  torus.torus_axis_count = 2;
  EXPECT_NE(before, ChipFingerprint(torus));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
