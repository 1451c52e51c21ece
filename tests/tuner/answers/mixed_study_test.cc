#include "server/tuner/answers/mixed_study.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/process/sanitizer.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

NodePoolRequest Pool(std::string name, std::string chip, int nodes) {
  return {
      .name = std::move(name), .chip = std::move(chip), .node_count = nodes, .devices_per_node = 4};
}

// A model of 12 layers and 1.3 billion parameters on two pools of four devices a node.
StudyRequest Mixed(NodePoolRequest a, NodePoolRequest b, double bandwidth) {
  StudyRequest request = {.question = TinyQuestion()};
  ModelSpec& model = request.question.model;
  model.layer_count = 12;
  model.hidden_size = 3072;
  model.ffn_hidden_size = 12288;
  model.attention_head_count = 16;
  model.kv_head_count = 16;
  model.head_dim = 192;
  model.tied_embeddings = false;
  request.question.workload = {.sequence_length = 2048, .global_batch_size = 64};
  request.question.cluster.pools = {std::move(a), std::move(b)};
  request.question.cluster.inter_pool.bandwidth_per_node = BytesPerSecond{bandwidth};
  return request;
}

StudyResult ResultOf(const StudyRequest& request) {
  const ResolvedStudy study = ResolveStudy(request, Known()).value();
  return std::get<StudyResult>(RunStudy(study, Known(), {}).value());
}

// Evaluates a plan of an answer on the same cluster, with the same history.
Estimate Evaluated(const StudyRequest& request, const ParallelPlan& plan) {
  QuestionResolver resolver(Known());
  const ResolvedCase asked =
      ResolveCase({.question = request.question, .plan = StatedPlan(plan)}, resolver).value();
  EXPECT_EQ(asked.plan.plan, plan);
  Calibrator calibrator(request.history, Known());
  return EvaluatePlan(asked, calibrator)->estimate;
}

constexpr char kA100[] = "nvidia-a100-sxm4-80gb";
constexpr char kA800[] = "nvidia-a800-sxm4-80gb";
constexpr char kV100[] = "nvidia-v100-sxm2-32gb";

TEST(MixedStudyTest, MixesTwoEqualPoolsWithAFastBoundary) {
  const StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA100, 4), 100e9);
  const StudyResult result = ResultOf(request);
  const Heterogeneous& mix = *result.heterogeneous;
  EXPECT_EQ(mix.verdict, MixVerdict::kMix) << mix.reason;
  EXPECT_TRUE(result.search.complete);
  EXPECT_EQ(result.search.optimality_gap, 0);
  // Equal pools are equally fast, so all of both is twice one of them.
  EXPECT_EQ(mix.tokens_per_second_by_pool.at("a"), mix.tokens_per_second_by_pool.at("b"));
  EXPECT_DOUBLE_EQ(mix.upper_bound_tokens_per_second, 2 * mix.lower_bound_tokens_per_second);
  EXPECT_DOUBLE_EQ(mix.gain_ratio, 2 * mix.efficiency_ratio);
  EXPECT_GT(mix.gain_ratio, 1.05);
  EXPECT_LT(*mix.gain_low_ratio, mix.gain_ratio);
  ASSERT_THAT(mix.best_by_pool_set, SizeIs(3));
  EXPECT_THAT(mix.best_by_pool_set.front().pools, SizeIs(2));
  ASSERT_THAT(mix.generations, SizeIs(3));
  EXPECT_EQ(mix.generations[0].name, "hetero_dp");
  EXPECT_LE(mix.generations[0].tokens_per_second, mix.generations[2].tokens_per_second);
  EXPECT_LE(mix.generations[1].tokens_per_second, mix.generations[2].tokens_per_second);
  EXPECT_TRUE(mix.bottleneck.has_value());
  const RankedPlan& first = result.plans.front();
  EXPECT_TRUE(StagesNamePools(first.plan));
  EXPECT_EQ(Evaluated(request, first.plan).step_time, first.estimate.step_time);
  EXPECT_EQ(Evaluated(request, result.model_optimum->plan).step_time,
            result.model_optimum->estimate.step_time);
}

// The files of the first plan launch it: two types of devices, and a line for each of eight hosts.
TEST(MixedStudyTest, HasTheFilesOfTheMix) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA100, 4), 100e9);
  request.question.workload.framework_name = "flagscale";
  const StudyResult result = ResultOf(request);
  ASSERT_THAT(result.plans.front().plan.stages, SizeIs(Gt(1U)));
  ASSERT_TRUE(result.plans.front().exports.contains("flagscale"));
  const LaunchConfig& config = result.plans.front().exports.at("flagscale");
  EXPECT_THAT(config.text, HasSubstr("    enable_hetero: true\n"));
  ASSERT_THAT(config.other_files, SizeIs(2));
  EXPECT_EQ(std::ranges::count(config.other_files[1].text, '\n'), 8);
  EXPECT_THAT(result.warnings, testing::Not(testing::Contains(HasSubstr("export"))));
  // It is the fastest mix, and so has one gain.
  EXPECT_EQ(result.plans.front().plan, result.model_optimum->plan);
  EXPECT_THAT(
      result.recommendation->reason,
      HasSubstr(fmt::format("it has {:.2f} times the speed of the best pool alone, and more",
                            result.heterogeneous->gain_ratio)));
}

void ExpectOnePool(const StudyRequest& request, const std::string& pool) {
  const StudyResult result = ResultOf(request);
  const Heterogeneous& mix = *result.heterogeneous;
  EXPECT_EQ(mix.verdict, MixVerdict::kOnePool) << mix.reason;
  EXPECT_THAT(mix.reason, HasSubstr("\"" + pool + "\" alone has"));
  const RankedPlan& first = result.plans.front();
  EXPECT_THAT(first.plan.pools, ElementsAre(pool));
  EXPECT_THAT(first.plan.stages, IsEmpty());
  const Estimate again = Evaluated(request, first.plan);
  EXPECT_EQ(again.step_time, first.estimate.step_time);
  EXPECT_EQ(again.reserved_memory, first.estimate.reserved_memory);
  EXPECT_THAT(again.warnings, testing::Contains(HasSubstr("is idle")));
  // The plan that leaves the other pool idle is never slower than the pool's own best.
  EXPECT_GE(mix.lower_bound_tokens_per_second, mix.tokens_per_second_by_pool.begin()->second);
}

TEST(MixedStudyTest, LeavesAPoolIdleBehindASlowBoundary) {
  const StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA100, 2), 0.05e9);
  ExpectOnePool(request, "a");
  EXPECT_THAT(ResultOf(request).heterogeneous->reason, HasSubstr("the boundary of 0.05 GB/s"));
}

// Thirty-two A100 of 312 teraflops beside four V100 of 125: 20:1.
TEST(MixedStudyTest, LeavesASmallPoolOfSlowChipsIdle) {
  ExpectOnePool(Mixed(Pool("v", kV100, 1), Pool("a", kA100, 8), 25e9), "a");
}

// One node of A100 beside six of H100 whose devices have little memory.
StudyRequest ShortOfMemoryBeyondOneNode(double gib) {
  StudyRequest request = Mixed(Pool("a", kA100, 1), Pool("b", "nvidia-h100-sxm5-80gb", 6), 50e9);
  request.question.cluster.pools.back().memory_capacity = GiB(gib);
  return request;
}

// A mix that barely fits must not take the place of a plan of one pool that fits surely, whatever
// it would gain.
TEST(MixedStudyTest, NeverLaunchesWhatIsLessSureThanOnePool) {
  const StudyRequest request = ShortOfMemoryBeyondOneNode(3.3);
  ExpectOnePool(request, "a");
  const StudyResult result = ResultOf(request);
  EXPECT_GT(*result.heterogeneous->gain_low_ratio, 1.05);
  EXPECT_THAT(result.heterogeneous->reason, HasSubstr("fits with a probability of 95 % or more"));
  EXPECT_GE(result.plans.front().estimate.fit_probability, 0.95);
  EXPECT_THAT(result.model_optimum->plan.stages, SizeIs(Gt(1U)));
  EXPECT_LT(result.model_optimum->estimate.fit_probability, 0.95);
}

// With 4 GiB the six nodes hold the job alone, but only just; the one node holds it surely.
TEST(MixedStudyTest, UsesTheSlowerPoolIfTheFasterOneMayRunOutOfMemory) {
  const StudyResult result = ResultOf(ShortOfMemoryBeyondOneNode(4));
  const Heterogeneous& mix = *result.heterogeneous;
  ASSERT_GT(mix.tokens_per_second_by_pool.at("b"), mix.tokens_per_second_by_pool.at("a"));
  EXPECT_EQ(mix.verdict, MixVerdict::kOnePool) << mix.reason;
  EXPECT_THAT(result.plans.front().plan.pools, ElementsAre("a"));
  EXPECT_GE(result.plans.front().estimate.fit_probability, 0.95);
  EXPECT_THAT(mix.reason, HasSubstr("\"a\" alone is used, because no plan for \"b\" fits"));
}

// A pipeline has only one sequence to fill its stages with, so that they wait for one another.
TEST(MixedStudyTest, LeavesAPoolIdleIfTheBatchIsSmall) {
  StudyRequest request = Mixed(Pool("a", kA100, 2), Pool("b", kA100, 2), 25e9);
  request.question.workload.global_batch_size = 1;
  ExpectOnePool(request, "a");
}

TEST(MixedStudyTest, AMixIsNoSlowerThanTheSamePlansInOnePool) {
  // The network between the pools is that in them: 8 links of 200 Gbit/s, 40 us.
  StudyRequest mixed = Mixed(Pool("a", kA100, 2), Pool("b", kA100, 2), 200e9);
  mixed.question.cluster.inter_pool.latency = Seconds(40e-6);
  for (NodePoolRequest& pool : mixed.question.cluster.pools) {
    pool.inter_node = {.nic_count = 8, .nic_gigabits_per_second = 200, .latency = Seconds(40e-6)};
  }
  StudyRequest one = mixed;
  one.question.cluster.pools.pop_back();
  one.question.cluster.pools.front().node_count = 4;
  one.dimensions = {{.name = "schedule", .values = {"1f1b"}},
                    {.name = "pipeline_parallel", .at_least = 2},
                    {.name = "tensor_parallel", .values = {"4"}}};
  mixed.dimensions = {{.name = "tensor_parallel", .values = {"4"}}};
  const StudyResult whole = ResultOf(one);
  const StudyResult parts = ResultOf(mixed);
  const std::vector<PoolSetPlan>& sets = parts.heterogeneous->best_by_pool_set;
  const double tokens = 64 * 2048;
  for (const PoolSetPlan& set : sets) {
    if (set.pools.size() < 2) continue;
    EXPECT_LE(tokens / set.tokens_per_second,
              whole.model_optimum->estimate.step_time.count() * (1 + 1e-9));
  }
}

// Returns eight runs of the job on the pool alone that took `ratio` times the modelled time and the
// modelled memory.
std::vector<HistoryRow> RunsAlone(const StudyRequest& request, const std::string& pool,
                                  double ratio) {
  StudyRequest modelled = request;
  modelled.history.clear();
  const ParallelPlan plan = {.data_parallel = 16, .zero_stage = 1, .pools = {pool}};
  const Problem problem = ResolveStudy(modelled, Known()).value().problem;
  const ResolvedPlan resolved = ResolvePlan(StatedPlan(plan), problem, "plan").value();
  const Estimate estimate = Evaluated(modelled, resolved.plan);
  const HistoryRow row = {.question = request.question,
                          .plan = StatedPlan(resolved.plan),
                          .outcome = Outcome::kOk,
                          .step_time = ratio * estimate.step_time,
                          .peak_memory = estimate.peak_memory};
  return ResolvedRows(std::vector<HistoryRow>(8, row));
}

// Returns the layers of the pool's stages.
int LayersOf(const ParallelPlan& plan, const std::string& pool) {
  int layers = 0;
  for (const StagePlan& stage : plan.stages) {
    if (stage.pool == pool) layers += stage.layer_count;
  }
  return layers;
}

// Runs on the chips of one pool alone move that pool and the stages on it, and nothing else,
// whichever pool is stated first.
TEST(MixedStudyTest, LearnsOfEachChipByItsOwnRuns) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA800, 4), 100e9);
  request.question.workload.framework_name = "flagscale";  // which has no replicas that differ
  const StudyResult before = ResultOf(request);
  for (const std::string pool : {"a", "b"}) {
    const std::string other = pool == "a" ? "b" : "a";
    request.history = RunsAlone(request, pool, 1.5);
    const StudyResult after = ResultOf(request);
    const auto& was = before.heterogeneous->tokens_per_second_by_pool;
    const auto& now = after.heterogeneous->tokens_per_second_by_pool;
    EXPECT_EQ(now.at(other), was.at(other));
    EXPECT_LT(now.at(pool), was.at(pool) / 1.2);
    // The pool alone is as fast as in a question that knows of no other.
    StudyRequest alone = request;
    std::erase_if(alone.question.cluster.pools,
                  [&](const NodePoolRequest& each) { return each.name != pool; });
    const RankedPlan own = *ResultOf(alone).model_optimum;
    EXPECT_DOUBLE_EQ(now.at(pool), 64 * 2048 / own.estimate.step_time.count());
    ASSERT_THAT(after.model_optimum->plan.stages, SizeIs(Gt(1U)));
    // The mix gives the pool no more layers than before, and its stages take longer.
    const RankedPlan& mix = *before.model_optimum;
    EXPECT_LE(LayersOf(after.model_optimum->plan, pool), LayersOf(mix.plan, pool));
    const double ratio = Evaluated(request, mix.plan).step_time / mix.estimate.step_time;
    EXPECT_GT(ratio, 1);
    EXPECT_LT(ratio, was.at(pool) / now.at(pool) * 1.05);
    // A plan for both pools and a plan for one are repeated to the last bit.
    EXPECT_EQ(Evaluated(request, after.model_optimum->plan).step_time,
              after.model_optimum->estimate.step_time);
    const RankedPlan& last = after.plans.back();
    EXPECT_EQ(Evaluated(request, last.plan).step_time, last.estimate.step_time);
    EXPECT_THAT(after.warnings, testing::Contains(HasSubstr("by 8 runs only on such chips")));
  }
}

// A run that mixes chips teaches nothing of one of them alone.
TEST(MixedStudyTest, LearnsOfMixesByMixedRuns) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA800, 4), 100e9);
  request.question.workload.framework_name = "flagscale";  // which has no replicas that differ
  const StudyResult before = ResultOf(request);
  const RankedPlan& mix = before.plans.front();
  ASSERT_THAT(mix.plan.stages, SizeIs(Gt(1U)));
  const HistoryRow row = {.question = request.question,
                          .plan = StatedPlan(mix.plan),
                          .outcome = Outcome::kOk,
                          .step_time = 1.3 * mix.estimate.step_time};
  request.history = ResolvedRows(std::vector<HistoryRow>(8, row));
  const StudyResult after = ResultOf(request);
  EXPECT_EQ(after.heterogeneous->tokens_per_second_by_pool,
            before.heterogeneous->tokens_per_second_by_pool);
  const double ratio = Evaluated(request, mix.plan).step_time / mix.estimate.step_time;
  EXPECT_GT(ratio, 1.2);
  EXPECT_LT(ratio, 1.3);
}

// Returns the throughput of a generation, or 0 if the answer has none of this name.
double TokensOf(const StudyResult& result, const std::string& generation) {
  for (const MixGeneration& each : result.heterogeneous->generations) {
    if (each.name == generation) return each.tokens_per_second;
  }
  return 0;
}

int ReplicasOn(const ParallelPlan& plan, const std::string& pool) {
  int count = 0;
  for (const ReplicaGroup& group : plan.replica_groups) {
    if (group.stages.front().pool == pool) count += group.replica_count * group.micro_batch_count;
  }
  return count;
}

// Two pools of unequal chips, the second of which has few devices. Each pool trains replicas of its
// own, and the faster one has more of the batch.
TEST(MixedStudyTest, SharesOutTheBatchByTheSpeedOfThePools) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", "nvidia-h100-sxm5-80gb", 4), 100e9);
  request.question.workload.global_batch_size = 256;
  const StudyResult result = ResultOf(request);
  const Heterogeneous& mix = *result.heterogeneous;
  const ParallelPlan& plan = result.model_optimum->plan;
  ASSERT_THAT(plan.replica_groups, SizeIs(2));
  EXPECT_EQ(TokensOf(result, "hetero_dp"), TokensOf(result, "hetero_tp"));
  EXPECT_GT(TokensOf(result, "hetero_dp"), mix.lower_bound_tokens_per_second);
  const int size_a = plan.replica_groups[0].stages.front().micro_batch_size;
  const int size_b = plan.replica_groups[1].stages.front().micro_batch_size;
  ASSERT_EQ(size_a, size_b);
  EXPECT_LT(ReplicasOn(plan, "a"), ReplicasOn(plan, "b"));
  EXPECT_EQ((ReplicasOn(plan, "a") + ReplicasOn(plan, "b")) * size_a, 256);
  const Estimate again = Evaluated(request, plan);
  EXPECT_EQ(again.step_time, result.model_optimum->estimate.step_time);
  EXPECT_EQ(again.reserved_memory, result.model_optimum->estimate.reserved_memory);
  EXPECT_THAT(again.warnings, testing::Contains(HasSubstr("no measured run backs estimates of "
                                                          "replicas that differ")));
  EXPECT_THAT(mix.reason, HasSubstr("the mix would bring 15.6 % by the model, but it is not sure"));
  ASSERT_TRUE(mix.bottleneck.has_value());
  EXPECT_EQ(mix.bottleneck->cause, "compute");
  EXPECT_THAT(mix.best_by_pool_set.front().pools, SizeIs(2));
}

// The replicas that differ are faster by the model than a pipeline over both pools, but no run has
// confirmed such plans: the pipeline is launched. To be surely faster (1.28 standard deviations),
// they need a lead of 28 %: 0.16 of their own, an own error of 0.05 of each plan and noise of 0.02
// of each run are 0.178, and the shares of the causes in both steps add a little.
TEST(MixedStudyTest, ReplicasThatDifferDoNotWinByAnAssumption) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA100, 4), 200e9);
  request.question.workload.global_batch_size = 256;
  const StudyResult result = ResultOf(request);
  ASSERT_EQ(result.heterogeneous->verdict, MixVerdict::kMix) << result.heterogeneous->reason;
  ASSERT_THAT(result.model_optimum->plan.replica_groups, SizeIs(Gt(0U)));
  const RankedPlan& first = result.plans.front();
  EXPECT_THAT(first.plan.replica_groups, IsEmpty());
  EXPECT_THAT(first.plan.stages, SizeIs(Gt(1U)));
  EXPECT_LT(first.estimate.step_time, 1.28 * result.model_optimum->estimate.step_time);
  EXPECT_THAT(result.heterogeneous->reason, HasSubstr("which no measured run backs"));
  // The plan's own gain is not that of the replicas.
  const double own_tokens_per_second = 256 * 2048 / first.estimate.step_time.count();
  const double gain = own_tokens_per_second / result.heterogeneous->lower_bound_tokens_per_second;
  ASSERT_LT(gain, result.heterogeneous->gain_ratio - 0.01);
  EXPECT_THAT(result.recommendation->reason,
              HasSubstr(fmt::format("it has {:.2f} times the speed of the best pool alone. The "
                                    "fastest mix has {:.2f} times",
                                    gain, result.heterogeneous->gain_ratio)));
}

// A run of replicas that differ teaches of such plans, and nothing of one pool alone. Its time and
// memory are those of the plan, whose groups are on different chips.
TEST(MixedStudyTest, LearnsOfReplicasThatDifferByTheirRuns) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "the release preset runs this long search";
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA800, 4), 100e9);
  request.question.workload.global_batch_size = 256;
  const StudyResult before = ResultOf(request);
  const ParallelPlan& plan = before.model_optimum->plan;
  ASSERT_THAT(plan.replica_groups, SizeIs(2));
  const Estimate cold = Evaluated(request, plan);
  const HistoryRow row = {.question = request.question,
                          .plan = StatedPlan(plan),
                          .outcome = Outcome::kOk,
                          .step_time = 1.3 * cold.step_time,
                          .peak_memory = Scale(cold.peak_memory, 1.1)};
  request.history = ResolvedRows(std::vector<HistoryRow>(8, row));
  const StudyResult after = ResultOf(request);
  EXPECT_EQ(after.heterogeneous->tokens_per_second_by_pool,
            before.heterogeneous->tokens_per_second_by_pool);
  const Estimate warm = Evaluated(request, plan);
  EXPECT_GT(warm.step_time / cold.step_time, 1.2);
  EXPECT_LT(warm.step_time / cold.step_time, 1.3);
  EXPECT_GT(warm.peak_memory / cold.peak_memory, 1.05);
  EXPECT_LT(warm.peak_memory / cold.peak_memory, 1.1);
  EXPECT_LT(warm.step_time_high / warm.step_time_low, cold.step_time_high / cold.step_time_low);
  // The answer is repeated with the same history.
  const RankedPlan& optimum = *after.model_optimum;
  EXPECT_EQ(Evaluated(request, optimum.plan).step_time, optimum.estimate.step_time);
}

// Runs of one pool's chips alone move the replicas on them. If those of the first pool are slower
// than modelled, its replicas have less of the batch.
TEST(MixedStudyTest, ReplicasFollowTheRunsOfTheirChips) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA800, 4), 100e9);
  request.question.workload.global_batch_size = 2048;
  const StudyResult before = ResultOf(request);
  const ParallelPlan plan = before.model_optimum->plan;
  ASSERT_THAT(plan.replica_groups, SizeIs(2));
  const auto share = [](const ParallelPlan& of) {
    int samples = 0;
    for (const ReplicaGroup& group : of.replica_groups) {
      if (group.stages.front().pool != "a") continue;
      samples +=
          group.replica_count * group.micro_batch_count * group.stages.front().micro_batch_size;
    }
    return samples;
  };
  const Seconds cold = Evaluated(request, plan).step_time;
  request.history = RunsAlone(request, "a", 2);
  const StudyResult after = ResultOf(request);
  EXPECT_GT(Evaluated(request, plan).step_time / cold, 1.05);
  ASSERT_THAT(after.model_optimum->plan.replica_groups, SizeIs(2));
  EXPECT_LT(share(after.model_optimum->plan), share(plan));
  EXPECT_LT(after.model_optimum->estimate.step_time, Evaluated(request, plan).step_time);
}

// The cluster of docs/mixed-clusters/generations.md: 64 A800 and 128 BI-V150 train Llama-2-70B.
TEST(MixedStudyTest, EachGenerationIsFasterThanTheOneBefore) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "the release preset runs this long search";
  StudyRequest request = Mixed(Pool("nv", kA800, 8), Pool("ix", "iluvatar-bi-v150", 8), 5e9);
  request.question.model = Llama2_70b();
  request.question.workload = {.sequence_length = 4096, .global_batch_size = 1024};
  request.question.cluster.pools[0].devices_per_node = 8;
  request.question.cluster.pools[1].devices_per_node = 16;
  const StudyResult result = ResultOf(request);
  EXPECT_TRUE(result.search.complete);
  EXPECT_GT(TokensOf(result, "hetero_dp"), result.heterogeneous->lower_bound_tokens_per_second);
  EXPECT_GT(TokensOf(result, "hetero_pp"), TokensOf(result, "hetero_dp"));
  EXPECT_GT(TokensOf(result, "hetero_tp"), TokensOf(result, "hetero_pp"));
}

// Frameworks that run no such plans say so, and their answers have no such generation.
TEST(MixedStudyTest, SaysWhyReplicasThatDifferAreNotSearched) {
  StudyRequest request = Mixed(Pool("a", kA100, 2), Pool("b", kA100, 2), 100e9);
  for (const char* framework : {"flagscale", "megatron-core", "pytorch-fsdp"}) {
    request.question.workload.framework_name = framework;
    const StudyResult result = ResultOf(request);
    EXPECT_EQ(TokensOf(result, "hetero_dp"), 0) << framework;
    EXPECT_THAT(result.warnings,
                testing::Contains(HasSubstr("replicas that differ are not searched: ")))
        << framework;
  }
}

// FlagScale 0.3 gives each type of chip a micro-batch size of its own; all replicas run as many
// micro-batches.
TEST(MixedStudyTest, SearchesTheReplicasOfOldFlagScale) {
  StudyRequest request = Mixed(Pool("a", kA100, 4), Pool("b", kA100, 4), 100e9);
  request.question.workload.framework_name = "flagscale";
  request.question.workload.framework_version = "0.3";
  const StudyResult result = ResultOf(request);
  ASSERT_GT(TokensOf(result, "hetero_dp"), 0);
  ASSERT_THAT(result.model_optimum->plan.replica_groups, SizeIs(2));
  const auto& groups = result.model_optimum->plan.replica_groups;
  EXPECT_EQ(groups[0].micro_batch_count, groups[1].micro_batch_count);
  EXPECT_EQ(groups[0].stages.size(), groups[1].stages.size());
  EXPECT_EQ(Evaluated(request, result.model_optimum->plan).step_time,
            result.model_optimum->estimate.step_time);
}

TEST(MixedStudyTest, ExplainsThatNothingFits) {
  StudyRequest request = Mixed(Pool("a", kA100, 1), Pool("b", kA100, 1), 25e9);
  for (NodePoolRequest& pool : request.question.cluster.pools) pool.memory_capacity = GiB(2);
  const ResolvedStudy study = ResolveStudy(request, Known()).value();
  const StudyAnswer answer = RunStudy(study, Known(), {}).value();
  const auto& infeasible = std::get<Infeasible>(answer);
  EXPECT_THAT(infeasible.suggestions.front(), HasSubstr("no mix of the pools fits either"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
