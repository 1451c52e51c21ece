#include "server/tuner/question/problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "estimator/legality/legality.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "tests/search_space/models.h"
#include "tests/tuner/fields.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Returns a question that states every field, none with its default.
Question FullQuestion() {
  Question question = TinyQuestion();
  question.workload = {.sequence_length = 512,
                       .global_batch_size = 8,
                       .precision = Precision::kFp16,
                       .attention_kernel = AttentionKernel::kUnfused,
                       .norm_kernel = KernelFusion::kUnfused,
                       .cross_entropy_kernel = KernelFusion::kFused,
                       .optimizer = Optimizer::kSgd,
                       .gradient_dtype = GradientDtype::kBf16,
                       .fp8_recipe = Fp8Recipe::kMxfp8,
                       .grouped_gemm = false,
                       .dropout_ratio = 0.1,
                       .overlap = {.gradient_reduce = false,
                                   .parameter_gather = false,
                                   .tensor_parallel = true,
                                   .pipeline_p2p = true},
                       .framework_name = "megatron-core",
                       .framework_version = "0.13"};
  question.cluster.pools = {
      {.name = "a",
       .chip = "nvidia-a100-sxm4-80gb",
       .node_count = 2,
       .devices_per_node = 4,
       .intra_node = {.kind = LinkKind::kNvlink3, .bandwidth = BytesPerSecond{2.5e11}},
       .inter_node = {.kind = LinkKind::kRoce,
                      .nic_count = 2,
                      .nic_gigabits_per_second = 100,
                      .latency = Seconds(1e-5)},
       .memory_capacity = GiB(64),
       .power_limit_watts = 350,
       .host = {.updated_parameters_per_second = 3e9,
                .numa_domain_count = 4,
                .memory = Bytes{1'000'000'000'000},
                .link_bandwidth = BytesPerSecond{5e10}}}};
  question.cluster.topology = {
      .kind = ClusterTopology::kFatTree, .nodes_per_segment = 16, .oversubscription_ratio = 1.5};
  question.cluster.inter_pool = {.bandwidth_per_node = BytesPerSecond{1e9},
                                 .latency = Seconds(2e-5)};
  return question;
}

// The states of 69e9 parameters are 828 GB. The four devices of the node have 344 GB, which its
// host is assumed to have: a search leaves larger shares out, and evaluate warns of them.
TEST(ResolveProblemTest, AssumesTheMemoryOfAHost) {
  Question question = TinyQuestion();
  question.model = Llama2_70b();
  const Problem assumed = Resolved(question);
  EXPECT_THAT(DefaultedFields(assumed.applied_defaults),
              Contains("cluster.pools[0].host.memory_bytes"));
  EXPECT_EQ(assumed.cluster.pools.front().host.memory, std::nullopt);
  ParallelPlan plan = {.data_parallel = 4, .zero_stage = 1, .optimizer_offload_ratio = 0.25};
  EXPECT_THAT(CautionsAbout(ToEstimatorProblem(assumed), plan), IsEmpty());
  plan.optimizer_offload_ratio = 1;
  EXPECT_THAT(CautionsAbout(ToEstimatorProblem(assumed), plan), testing::SizeIs(1));
  EXPECT_THAT(BrokenRules(ToEstimatorProblem(assumed), plan), IsEmpty());
  question.cluster.pools.front().host.memory = Bytes{1'000'000'000'000};
  const Problem stated = Resolved(question);
  EXPECT_THAT(CautionsAbout(ToEstimatorProblem(stated), plan), IsEmpty());
  EXPECT_THAT(BrokenRules(ToEstimatorProblem(stated), plan), IsEmpty());
}

// The link between a device and its host is the chip's unless the cluster states its own.
TEST(ResolveProblemTest, TakesTheLinkOfAHost) {
  constexpr char kField[] = "cluster.pools[0].host.link_bandwidth_bytes_per_second";
  Question question = TinyQuestion();
  const Problem usual = Resolved(question);
  EXPECT_THAT(DefaultedFields(usual.applied_defaults), Contains(kField));
  const BytesPerSecond stated{2 * usual.cluster.pools.front().chip.host_link.rate};
  question.cluster.pools.front().host.link_bandwidth = stated;
  const Problem own = Resolved(question);
  EXPECT_EQ(own.cluster.pools.front().chip.host_link, stated);
  EXPECT_THAT(DefaultedFields(own.applied_defaults), Not(Contains(kField)));
}

// A workload's own facts replace the profile's, and the answer says so.
TEST(ResolveProblemTest, FactsOfTheWorkload) {
  Question question = FullQuestion();
  question.workload.framework_facts = {{.name = "host_per_launch_seconds", .value = "7e-5"},
                                       {.name = "activation_is_fused", .value = "false"}};
  const Problem problem = Resolved(question);
  EXPECT_EQ(problem.profile.host_per_launch, Seconds(7e-5));
  EXPECT_FALSE(problem.profile.activation_is_fused);
  EXPECT_THAT(
      problem.warnings,
      testing::Contains(testing::HasSubstr("host_per_launch_seconds, activation_is_fused")));
}

// Gradients of 16 bits are of the parameters' type, and grouped GEMMs take bf16 and fp8 only.
TEST(ResolveProblemTest, DefaultsSuitThePrecision) {
  const auto resolved = [](const std::string& framework, Precision precision) {
    Question question = TinyQuestion();
    question.workload.framework_name = framework;
    question.workload.precision = precision;
    question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
    return Resolved(question).workload;
  };
  const auto gradients = [&](const std::string& framework, Precision precision) {
    return resolved(framework, precision).gradient_dtype;
  };
  EXPECT_EQ(gradients("paddle", Precision::kBf16), GradientDtype::kBf16);
  EXPECT_EQ(gradients("paddle", Precision::kFp16), GradientDtype::kFp16);
  EXPECT_EQ(gradients("paddle", Precision::kFp32), GradientDtype::kFp32);
  EXPECT_EQ(gradients("megatron-deepspeed", Precision::kFp16), GradientDtype::kFp16);
  EXPECT_EQ(gradients("megatron-deepspeed", Precision::kBf16), GradientDtype::kFp32);
  EXPECT_EQ(gradients("megatron-core", Precision::kFp16), GradientDtype::kFp32);
  for (const Precision precision : {Precision::kBf16, Precision::kFp8}) {
    EXPECT_TRUE(resolved("megatron-core", precision).grouped_gemm) << Word(precision);
  }
  for (const Precision precision : {Precision::kFp16, Precision::kFp32}) {
    EXPECT_FALSE(resolved("megatron-core", precision).grouped_gemm) << Word(precision);
  }
  EXPECT_EQ(resolved("megatron-lm", Precision::kFp8).fp8_recipe, Fp8Recipe::kDelayed);
}

// Devices that share a physical device share its memory, unless the pool states each one's.
TEST(ResolveProblemTest, MemoryOfSharedDevices) {
  Question question = TinyQuestion();
  NodePoolRequest& pool = question.cluster.pools.front();
  pool.devices_per_node = 8;
  pool.memory_capacity.reset();
  const Bytes whole = Resolved(question).cluster.pools.front().memory_capacity;
  pool.physical_devices_per_node = 2;
  const Problem shared = Resolved(question);
  EXPECT_EQ(shared.cluster.pools.front().memory_capacity, Scale(whole, 0.25));
  EXPECT_THAT(shared.warnings, Contains(HasSubstr("step times of pipelines are lower bounds")));
  EXPECT_THAT(shared.applied_defaults,
              Contains(testing::Field(&AppliedDefault::value, std::to_string(whole.count / 4))));
  pool.memory_capacity = GiB(7);
  EXPECT_EQ(Resolved(question).cluster.pools.front().memory_capacity, GiB(7));
}

// A default that comes from such a fact says so.
TEST(ResolveProblemTest, SourceOfADefaultThatIsAFact) {
  Question question = TinyQuestion();
  question.workload.framework_facts = {{.name = "attention_kernel", .value = "unfused"}};
  const Problem problem = Resolved(question);
  EXPECT_EQ(problem.workload.attention_kernel, AttentionKernel::kUnfused);
  EXPECT_THAT(problem.applied_defaults,
              testing::Contains(AppliedDefault{.field = "workload.attention_kernel",
                                               .value = "unfused",
                                               .source = "the workload's own fact"}));
}

// A precision that the chip has no peak for is refused, however it is stated.
TEST(ResolveProblemTest, PrecisionAsAFact) {
  Question question = TinyQuestion();
  question.workload.framework_facts = {{.name = "precision", .value = "fp8"}};
  const auto problem = ResolveProblem(question, Known());
  EXPECT_THAT(Fields(problem.status()), testing::ElementsAre("workload.framework.facts[0]"));
}

// A workload cannot state what a profile was checked on.
TEST(ResolveProblemTest, EvidenceIsNoFactOfAWorkload) {
  for (const char* name :
       {"low_time_ratio", "high_time_ratio", "checked_chips", "checked_device_count"}) {
    Question question = TinyQuestion();
    question.workload.framework_facts = {{.name = name, .value = "1"}};
    const auto problem = ResolveProblem(question, Known());
    EXPECT_THAT(Fields(problem.status()), testing::ElementsAre("workload.framework.facts[0]"))
        << name;
  }
}

TEST(ResolveProblemTest, FactsThatCannotBe) {
  Question question = FullQuestion();
  question.workload.framework_facts = {{.name = "host_per_lunch_seconds", .value = "1"},
                                       {.name = "allocator_efficiency", .value = "2"},
                                       {.name = "rotary_is_fused", .value = "true"},
                                       {.name = "rotary_is_fused", .value = "false"}};
  const auto problem = ResolveProblem(question, Known());
  const std::vector<FieldViolation> found = FieldViolations(problem.status());
  ASSERT_EQ(found.size(), 3u) << problem.status();
  EXPECT_EQ(found[0].field, "workload.framework.facts[0]");
  EXPECT_THAT(found[0].description,
              testing::HasSubstr("host_per_lunch_seconds = 1; is not a fact"));
  EXPECT_THAT(found[1].description, testing::HasSubstr("must be a number from 0.1 to 1"));
  EXPECT_THAT(found[2].description, testing::HasSubstr("stated twice"));
}

TEST(ResolveProblemTest, KeepsWhatIsStated) {
  const Problem problem = Resolved(FullQuestion());
  EXPECT_THAT(DefaultedFields(problem.applied_defaults), IsEmpty());
  // A stated field that has no term in the cost model is reported, not dropped.
  EXPECT_THAT(problem.warnings,
              testing::ElementsAre(testing::HasSubstr("fat_tree"),
                                   testing::HasSubstr("was not checked against measured runs on a "
                                                      "cluster like this one, only on")));
  const Workload& w = problem.workload;
  EXPECT_EQ(w.sequence_length, 512);
  EXPECT_EQ(w.global_batch_size, 8);
  EXPECT_EQ(w.precision, Precision::kFp16);
  EXPECT_EQ(w.attention_kernel, AttentionKernel::kUnfused);
  EXPECT_EQ(w.norm_kernel, KernelFusion::kUnfused);
  EXPECT_EQ(w.cross_entropy_kernel, KernelFusion::kFused);
  EXPECT_EQ(w.optimizer, Optimizer::kSgd);
  EXPECT_EQ(w.gradient_dtype, GradientDtype::kBf16);
  EXPECT_EQ(w.fp8_recipe, Fp8Recipe::kMxfp8);
  EXPECT_FALSE(w.grouped_gemm);
  EXPECT_EQ(w.dropout_ratio, 0.1);
  EXPECT_EQ(w.overlap, (Overlap{.tensor_parallel = true, .pipeline_p2p = true}));
  EXPECT_EQ(w.framework_name, "megatron-core");
  const NodePool& pool = problem.cluster.pools.front();
  EXPECT_EQ(DeviceCount(problem.cluster), 8);
  EXPECT_EQ(pool.intra_node.bandwidth, BytesPerSecond{2.5e11});
  EXPECT_EQ(pool.inter_node.kind, LinkKind::kRoce);
  EXPECT_EQ(pool.inter_node.nic_count, 2);
  EXPECT_EQ(pool.inter_node.nic_bandwidth, BytesPerSecond{12.5e9});  // 100 Gb/s / 8
  EXPECT_EQ(pool.inter_node.latency, Seconds(1e-5));
  EXPECT_EQ(pool.memory_capacity, GiB(64));
  EXPECT_EQ(pool.power_limit_watts, 350);
  EXPECT_EQ(problem.cluster.topology.kind, ClusterTopology::kFatTree);
  EXPECT_EQ(problem.cluster.topology.nodes_per_segment, 16);
  EXPECT_EQ(problem.cluster.topology.oversubscription_ratio, 1.5);
}

TEST(ResolveProblemTest, AppliesAndEchoesDefaults) {
  Question question = TinyQuestion();
  question.cluster.pools = {{.name = "a", .chip = "nvidia-a100-sxm4-80gb", .node_count = 2}};
  const Problem problem = Resolved(question);
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  EXPECT_EQ(DeviceCount(problem.cluster), 2 * chip.usual_node.device_count);
  EXPECT_EQ(problem.workload.precision, Precision::kBf16);
  EXPECT_EQ(problem.workload.framework_name, "generic");
  const std::string node = "usual node of nvidia-a100-sxm4-80gb";
  const std::string pool = "cluster.pools[0].";
  EXPECT_THAT(problem.applied_defaults,
              testing::IsSupersetOf(std::vector<AppliedDefault>{
                  {pool + "devices_per_node", "8", node},
                  {pool + "intra_node.kind", "nvlink3", node},
                  {pool + "intra_node.bandwidth_bytes_per_second", "300000000000", node},
                  {pool + "inter_node.kind", "infiniband", node},
                  {pool + "memory_capacity_bytes", "84986665369", "chip nvidia-a100-sxm4-80gb"},
                  {pool + "power_limit_watts", "400", "chip nvidia-a100-sxm4-80gb"},
                  {"cluster.topology.kind", "rail_optimized", "default network"},
                  {"workload.precision", "bf16", "framework profile generic"},
                  {"workload.attention_kernel", "flash2", "framework profile generic"},
                  {"workload.overlap.gradient_reduce", "true", "framework profile generic"},
                  {"workload.framework.name", "generic", "no framework stated"},
              }));
  // A dense model in bf16 takes no recipe and no grouped kernel, and one pool no link to another.
  EXPECT_THAT(DefaultedFields(problem.applied_defaults),
              testing::Not(testing::AnyOf(Contains(HasSubstr("fp8_recipe")),
                                          Contains(HasSubstr("grouped_gemm")),
                                          Contains(HasSubstr("inter_pool")))));
}

TEST(ResolveProblemTest, EchoesNoDefaultTwice) {
  Question question = TinyQuestion();
  question.model = TinyExperts();
  question.cluster.pools.push_back(Nodes(1, 4));
  question.cluster.pools.back().name = "b";
  std::vector<std::string> fields = DefaultedFields(Resolved(question).applied_defaults);
  EXPECT_THAT(fields,
              testing::IsSupersetOf({"workload.grouped_gemm", "cluster.inter_pool.latency_seconds",
                                     "cluster.pools[1].memory_capacity_bytes"}));
  std::sort(fields.begin(), fields.end());
  EXPECT_EQ(std::adjacent_find(fields.begin(), fields.end()), fields.end());
}

// Reported once per chip, unless it is wired in another way or its collectives were measured.
TEST(ResolveProblemTest, SaysWhatIsEstimatedAsOverASwitch) {
  Question question = TinyQuestion();
  question.cluster.pools = {{.name = "a", .chip = "google-tpu-v5e", .node_count = 2},
                            {.name = "b", .chip = "google-tpu-v5e", .node_count = 2}};
  const auto said = Contains(HasSubstr("form a torus"));
  EXPECT_THAT(Resolved(question).warnings, Contains(HasSubstr("form a torus")).Times(1));
  question.cluster.pools.resize(1);
  question.cluster.pools.front().intra_node.kind = LinkKind::kPcie4;
  EXPECT_THAT(Resolved(question).warnings, testing::Not(said));
  question.cluster.pools.front() = {.name = "a", .chip = "huawei-ascend-910c", .node_count = 1};
  EXPECT_THAT(Resolved(question).warnings, testing::Not(said));
}

TEST(ResolveProblemTest, LinkOtherThanTheChipsOwn) {
  Question question = TinyQuestion();
  question.cluster.pools.front().intra_node.kind = LinkKind::kPcie4;
  question.cluster.pools.front().inter_node.kind = LinkKind::kEfa;
  const NodePool pool = Resolved(question).cluster.pools.front();
  EXPECT_EQ(pool.intra_node.bandwidth, BytesPerSecond{32e9});  // 16 lanes of PCIe 4.0
  EXPECT_EQ(pool.intra_node.topology, NodeTopology::kPcieTree);
  EXPECT_EQ(pool.inter_node.latency, Seconds(120e-6));
}

TEST(ResolveProblemTest, PrecisionFollowsTheChip) {
  Question question = TinyQuestion();
  question.cluster.pools.front().chip = "nvidia-v100-sxm2-32gb";  // has no bf16
  const Problem problem = Resolved(question);
  EXPECT_EQ(problem.workload.precision, Precision::kFp16);
  EXPECT_THAT(problem.applied_defaults,
              Contains(testing::Field(&AppliedDefault::value, testing::Eq("fp16"))));
}

TEST(ResolveProblemTest, SaysWhereNoRunWasChecked) {
  Question question = TinyQuestion();
  question.workload.framework_name = "pytorch-fsdp";
  question.cluster.pools.front().chip = "nvidia-a100-sxm4-80gb";
  question.cluster.pools.front().node_count = 64;  // 512 devices: four times the largest run
  question.cluster.pools.front().devices_per_node = 8;
  EXPECT_THAT(Resolved(question).warnings, IsEmpty());
  question.cluster.pools.front().node_count = 65;
  EXPECT_THAT(Resolved(question).warnings, ElementsAre(HasSubstr("up to 128 devices")));
  question.cluster.pools.front().node_count = 1;
  question.cluster.pools.front().chip = "nvidia-b200-sxm-180gb";
  EXPECT_THAT(Resolved(question).warnings, Contains(HasSubstr("nvidia-h100-sxm5-80gb")));
}

// Operators without data of the chip or of a similar one are named; A100 was measured.
TEST(ResolveProblemTest, NamesKindsOfOperatorsThatAreAssumed) {
  Question question = TinyQuestion();
  question.cluster.pools.front().chip = "nvidia-v100-sxm2-32gb";
  EXPECT_THAT(Resolved(question).warnings,
              Contains(HasSubstr("constants of memory-bound operators, collectives are assumed")));
  // Operators that the question does not use are not named.
  question.cluster.pools.front().node_count = 1;
  question.cluster.pools.front().devices_per_node = 1;
  EXPECT_THAT(Resolved(question).warnings,
              Contains(HasSubstr("constants of memory-bound operators are assumed")));
  question.cluster.pools.front().chip = "huawei-ascend-910b-313t";
  question.workload.attention_kernel = AttentionKernel::kFlash2;
  EXPECT_THAT(Resolved(question).warnings,
              Contains(HasSubstr("constants of attention are assumed")));
  question.workload.attention_kernel = AttentionKernel::kUnfused;
  EXPECT_THAT(Resolved(question).warnings, Each(Not(HasSubstr("are assumed"))));
  question.cluster.pools.front().chip = "nvidia-a100-sxm4-80gb";
  EXPECT_THAT(Resolved(question).warnings, Each(Not(HasSubstr("are assumed"))));
}

struct MistakeCase {
  std::string name;
  std::function<void(Question&)> change;
  std::vector<std::string> fields;
  std::string says;  // part of the message
};

const MistakeCase kMistakes[] = {
    {"UnknownChip",
     [](Question& q) { q.cluster.pools.front().chip = "nvidia-a1000"; },
     {"cluster.pools[0].chip"},
     "nvidia-a1000"},
    {"AliasOfSeveralChips",
     [](Question& q) { q.cluster.pools.front().chip = "910b"; },
     {"cluster.pools[0].chip"},
     "huawei-ascend-910b-313t"},
    {"PrecisionThatTheChipLacks",
     [](Question& q) { q.workload.precision = Precision::kFp8; },
     {"workload.precision"},
     "fp8"},
    {"NoPool", [](Question& q) { q.cluster.pools.clear(); }, {"cluster.pools"}, "cluster.pools"},
    {"FiveAtOnce",
     [](Question& q) {
       q.model.layer_count = 0;
       q.model.hidden_size = -1;
       q.workload.global_batch_size.reset();
       q.cluster.pools.front().chip = "abacus";
       q.cluster.pools.front().node_count = 0;
     },
     {"model.layer_count", "model.hidden_size", "workload.global_batch_size",
      "cluster.pools[0].node_count", "cluster.pools[0].chip"},
     "5 invalid fields"},
};

class QuestionMistakeTest : public testing::TestWithParam<MistakeCase> {};

TEST_P(QuestionMistakeTest, NamesEveryBadField) {
  Question question = TinyQuestion();
  GetParam().change(question);
  const auto problem = ResolveProblem(question, Known());
  ASSERT_FALSE(problem.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(problem.status()));
  EXPECT_THAT(Fields(problem.status()), testing::UnorderedElementsAreArray(GetParam().fields));
  EXPECT_THAT(std::string(problem.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(All, QuestionMistakeTest, testing::ValuesIn(kMistakes),
                         [](const auto& test) { return test.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
