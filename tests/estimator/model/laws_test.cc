#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <random>
#include <string>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Laws that two problems obey, one of which is worse than the other, over plans drawn from the
// space of problems of 8 to 131,072 devices.

// Times are sums of rounded figures.
constexpr double kRounding = 1e-9;
constexpr int kPlansEach = 40;

// The same chip under another release of a library differs by 1 to 4 % in the tables of kernels
// that the chips' constants were fitted to (median).
constexpr double kRepeatNoise = 0.02;

struct Question {
  const char* name;
  ModelSpec model;
  const char* chip;
  int node_count;
  const char* framework;
};

void PrintTo(const Question& c, std::ostream* out) { *out << c.name; }

const Question kQuestions[] = {
    {"Llama7bOneNode", Llama2_7b(), "nvidia-a100-sxm4-80gb", 1, "megatron-core"},
    {"Llama70b", Llama2_70b(), "nvidia-h100-sxm5-80gb", 16, "megatron-core"},
    {"Llama70bFsdp", Llama2_70b(), "nvidia-h200-sxm5-141gb", 32, "pytorch-fsdp"},
    {"Llama70bTitan", Llama2_70b(), "amd-instinct-mi300x", 16, "torchtitan"},
    {"Gpt3Old", Gpt3_175b(), "nvidia-a100-sxm4-80gb", 512, "megatron-lm"},
    {"Gpt3Huge", Gpt3_175b(), "nvidia-h100-sxm5-80gb", 16384, "megatron-core"},
    {"Gpt3Gaudi", Gpt3_175b(), "intel-gaudi2", 64, "megatron-core"},
    {"MixtralAscend", Mixtral_8x7b(), "huawei-ascend-910b-313t", 8, "mindspeed"},
    {"DeepseekH800", DeepseekV3(), "nvidia-h800-sxm5-80gb", 256, "megatron-core"},
    {"DeepseekRacks", DeepseekV3(), "nvidia-b200-sxm-180gb", 1024, "megatron-core"},
    {"Llama70bTpu", Llama2_70b(), "google-tpu-v5p", 64, "jax"},
};

OwnedProblem ProblemOf(const Question& asked) {
  OwnedProblem problem =
      FrameworkProblem(asked.model, asked.chip, asked.node_count, asked.framework);
  problem.workload.global_batch_size = 8 * std::max(64, asked.node_count);
  return problem;
}

// Plans without virtual stages of unequal size; the same for every call.
std::vector<ParallelPlan> DrawPlans(const OwnedProblem& problem) {
  const SearchSpace space(problem.model, DeviceCount(problem.cluster),
                          problem.workload.global_batch_size,
                          {.context_parallel_kinds = problem.profile.context_parallel_kinds,
                           .schedules = problem.profile.schedules,
                           .rank_orders = problem.profile.rank_orders,
                           .fabric_devices = ScaleUpDeviceCount(problem.cluster.pools.front())});
  std::mt19937 random(11);
  std::vector<ParallelPlan> plans;
  while (plans.size() < kPlansEach) {
    ParallelPlan plan = space.Root();
    bool is_dead_end = false;
    for (int i = 0; i < kDimensionCount && !is_dead_end; ++i) {
      const auto dimension = static_cast<Dimension>(i);
      const std::vector<int> values = space.Values(dimension, plan);
      is_dead_end = values.empty();
      if (!is_dead_end) space.Set(dimension, values[random() % values.size()], plan);
    }
    if (!is_dead_end) plans.push_back(plan);
  }
  return plans;
}

class LawsTest : public testing::TestWithParam<Question> {};

// Expects that no plan is faster if `worsen` changes the problem.
void ExpectNeverFaster(const OwnedProblem& problem,
                       const std::function<void(OwnedProblem&)>& worsen) {
  OwnedProblem worse = problem;
  worsen(worse);
  AnalyticModel before(problem.View());
  AnalyticModel after(worse.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    const Estimate good = before.Full(plan);
    const Estimate bad = after.Full(plan);
    EXPECT_GE(bad.step_time.count(), (1 - kRounding) * good.step_time.count())
        << MakePlanKey(plan).text;
  }
}

TEST_P(LawsTest, ASlowerNetworkIsNeverFaster) {
  const OwnedProblem problem = ProblemOf(GetParam());
  ExpectNeverFaster(problem, [](OwnedProblem& worse) {
    worse.cluster.pools.front().inter_node.nic_bandwidth.rate /= 2;
  });
  ExpectNeverFaster(
      problem, [](OwnedProblem& worse) { worse.cluster.pools.front().inter_node.latency *= 4; });
  ExpectNeverFaster(problem, [](OwnedProblem& worse) {
    worse.cluster.pools.front().intra_node.bandwidth.rate /= 2;
  });
}

TEST_P(LawsTest, ALowerPowerLimitIsNeverFaster) {
  ExpectNeverFaster(ProblemOf(GetParam()), [](OwnedProblem& worse) {
    NodePool& pool = worse.cluster.pools.front();
    pool.power_limit_watts = 0.6 * pool.chip.power_limit_watts;
  });
}

TEST_P(LawsTest, ALargerModelIsNeverFaster) {
  const OwnedProblem problem = ProblemOf(GetParam());
  ExpectNeverFaster(problem, [](OwnedProblem& worse) { worse.model.ffn_hidden_size *= 2; });
  ExpectNeverFaster(problem, [](OwnedProblem& worse) { worse.model.vocab_size *= 2; });
  ExpectNeverFaster(problem, [](OwnedProblem& worse) { worse.workload.sequence_length *= 2; });
  if (!problem.model.moe.has_value()) return;
  ExpectNeverFaster(problem,
                    [](OwnedProblem& worse) { worse.model.moe->expert_ffn_hidden_size *= 2; });
  ExpectNeverFaster(problem, [](OwnedProblem& worse) { worse.model.moe->imbalance_ratio = 1.5; });
}

// A replica does the same work, and its optimizer, which is left out, less: only messages differ.
// Buckets are of one size here, because fewer and larger ones pay fewer latencies; and a larger
// group of a mesh or torus has more of its links.
TEST_P(LawsTest, TwiceTheNodesByDataParallelismAreNeverFaster) {
  OwnedProblem problem = ProblemOf(GetParam());
  const NodeTopology wiring = problem.cluster.pools.front().intra_node.topology;
  if (wiring == NodeTopology::kTorus || wiring == NodeTopology::kFullMesh) GTEST_SKIP();
  problem.profile.bucket_parameters_per_rank = 0;
  OwnedProblem larger = problem;
  larger.cluster.pools.front().node_count *= 2;
  larger.workload.global_batch_size *= 2;
  AnalyticModel before(problem.View());
  AnalyticModel after(larger.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    ParallelPlan twice = plan;
    twice.data_parallel *= 2;
    const Estimate small = before.Full(plan);
    const Estimate large = after.Full(twice);
    const double few = small.step_time.count() - Line(small, TimeCause::kOptimizer);
    const double many = large.step_time.count() - Line(large, TimeCause::kOptimizer);
    EXPECT_GE(many, (1 - kRounding) * few)
        << MakePlanKey(plan).text << " data_parallel " << Line(small, TimeCause::kDataParallel)
        << " -> " << Line(large, TimeCause::kDataParallel);
  }
}

// A higher stage keeps what it divides in fewer bytes; only buffers of the transient line are new.
TEST_P(LawsTest, AHigherZeroStageKeepsLess) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (ParallelPlan plan : DrawPlans(problem)) {
    plan.whole_weights_ratio = 0;
    plan.optimizer_offload_ratio = 0;
    plan.zero_group_size = 0;
    double last = 0;
    for (const int stage : {0, 1, 2, 3}) {
      plan.zero_stage = stage;
      const Estimate estimate = model.Full(plan);
      const double kept = static_cast<double>(estimate.peak_memory.count) -
                          Line(estimate.memory_breakdown, MemoryKind::kTransient);
      if (stage > 0) {
        EXPECT_LE(kept, (1 + kRounding) * last)
            << "ZeRO " << stage << ' ' << MakePlanKey(plan).text;
      }
      last = kept;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LawsTest, testing::ValuesIn(kQuestions),
                         [](const auto& test) { return std::string(test.param.name); });

struct Bins {
  const char* lesser;
  const char* better;
};

void PrintTo(const Bins& c, std::ostream* out) { *out << c.lesser << " and " << c.better; }

// Chips of one design, the second of which is better in some figure and worse in none.
const Bins kBins[] = {
    {"nvidia-a100-pcie-80gb", "nvidia-a100-sxm4-80gb"},
    {"nvidia-a800-sxm4-80gb", "nvidia-a100-sxm4-80gb"},
    {"nvidia-a100-sxm4-40gb", "nvidia-a100-sxm4-80gb"},
    {"nvidia-h100-pcie-80gb", "nvidia-h100-sxm5-80gb"},
    {"nvidia-h800-sxm5-80gb", "nvidia-h100-sxm5-80gb"},
    {"nvidia-h20-sxm5-96gb", "nvidia-h200-sxm5-141gb"},
    {"nvidia-h100-sxm5-80gb", "nvidia-h200-sxm5-141gb"},
    {"nvidia-b200-sxm-180gb", "nvidia-b300-sxm-288gb"},
    {"nvidia-gb200-nvl72", "nvidia-gb300-nvl72"},
    {"huawei-ascend-910b-313t", "huawei-ascend-910b-376t"},
    {"amd-instinct-mi300x", "amd-instinct-mi325x"},
};

class BinsTest : public testing::TestWithParam<Bins> {};

TEST_P(BinsTest, ABetterBinIsNeverSlower) {
  const Bins& bins = GetParam();
  for (const ModelSpec& model : {Llama2_7b(), Llama2_70b(), Mixtral_8x7b()}) {
    const OwnedProblem lesser = FrameworkProblem(model, bins.lesser, 4, "megatron-core");
    const OwnedProblem better = FrameworkProblem(model, bins.better, 4, "megatron-core");
    AnalyticModel slow(lesser.View());
    AnalyticModel fast(better.View());
    for (const ParallelPlan& plan : DrawPlans(lesser)) {
      EXPECT_LE(fast.Full(plan).step_time.count(),
                (1 + kRepeatNoise) * slow.Full(plan).step_time.count())
          << MakePlanKey(plan).text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BinsTest, testing::ValuesIn(kBins), [](const auto& test) {
  std::string name = std::string(test.param.lesser) + "_" + test.param.better;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
