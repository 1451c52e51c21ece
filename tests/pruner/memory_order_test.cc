#include "pruner/rules/memory_order.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/problem.h"
#include "tests/pruner/all_plans.h"
#include "tests/pruner/open_problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::Optional;

ParallelPlan DataParallel() { return {.data_parallel = 4, .micro_batch_size = 2}; }

std::optional<std::vector<std::string>> Compare(const ParallelPlan& plan,
                                                const ParallelPlan& other) {
  const Problem problem = OpenProblem(TinyQuestion());
  return NeedsAtLeast(plan, other, ToEstimatorProblem(problem));
}

TEST(NeedsAtLeast, SaysByWhichDimensions) {
  EXPECT_THAT(Compare(DataParallel(), DataParallel()), Optional(ElementsAre()));
  ParallelPlan larger = DataParallel();
  larger.micro_batch_size = 4;
  ParallelPlan smaller = DataParallel();
  smaller.zero_stage = 1;
  smaller.recompute = {.granularity = RecomputeGranularity::kFull};
  EXPECT_THAT(Compare(larger, smaller),
              Optional(ElementsAre("micro_batch_size 4 instead of 2",
                                   "recompute none instead of full", "zero_stage 0 instead of 1")));
  EXPECT_EQ(Compare(smaller, larger), std::nullopt);
}

// Each of these plans needs more in one way and less in another, or differs in no structural way.
TEST(NeedsAtLeast, SaysNothingWhereItDepends) {
  ParallelPlan recomputed = DataParallel();
  recomputed.micro_batch_size = 4;
  recomputed.recompute = {.granularity = RecomputeGranularity::kFull};
  EXPECT_EQ(Compare(recomputed, DataParallel()), std::nullopt);
  EXPECT_EQ(Compare(DataParallel(), recomputed), std::nullopt);
  // The first recomputed layer needs room for its working set.
  ParallelPlan one_layer = DataParallel();
  one_layer.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {1}};
  EXPECT_EQ(Compare(DataParallel(), one_layer), std::nullopt);
  // ZeRO-3 holds gathered layers in addition.
  ParallelPlan gathered = DataParallel();
  gathered.zero_stage = 3;
  EXPECT_EQ(Compare(DataParallel(), gathered), std::nullopt);
  const ParallelPlan split = {.tensor_parallel = 2, .pipeline_parallel = 2};
  const ParallelPlan other_split = {.tensor_parallel = 4};
  EXPECT_EQ(Compare(split, other_split), std::nullopt);
  EXPECT_EQ(Compare(other_split, split), std::nullopt);
}

Question RandomQuestion(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  Question question = TinyQuestion();
  if (random() % 2 == 0) question.model = TinyExperts();
  ModelSpec& model = question.model;
  model.layer_count = pick({2, 3, 4, 6});
  model.hidden_size = pick({512, 1024, 4096});
  model.head_dim = model.hidden_size / 16;
  model.kv_head_count = pick({2, 4, 16});
  model.ffn_hidden_size = pick({1, 4}) * model.hidden_size;
  model.vocab_size = pick({1024, 32000, 128000});
  model.mlp = random() % 2 == 0 ? MlpKind::kGelu : MlpKind::kSwiglu;
  model.norm = random() % 2 == 0 ? NormKind::kLayernorm : NormKind::kRmsnorm;
  if (model.moe.has_value() && random() % 2 == 0) model.moe->first_dense_layer_count = 1;
  WorkloadRequest& workload = question.workload;
  workload.sequence_length = pick({512, 1024, 4096, 32768});
  workload.global_batch_size = pick({4, 8, 12, 16});
  const char* const frameworks[] = {"generic", "megatron-core", "torchtitan", "mindspeed"};
  workload.framework_name = frameworks[random() % 4];
  workload.framework_facts = {
      {.name = "schedules", .value = "1f1b gpipe zb_h1 zb_v dualpipe chimera interleaved_1f1b"},
      {.name = "context_parallel_kinds", .value = "ring ulysses all_gather hybrid"},
      {.name = "offloads_activations", .value = random() % 2 == 0 ? "true" : "false"}};
  question.cluster.pools = {Nodes(pick({1, 2}), pick({4, 6, 8}))};
  if (random() % 4 == 0) {
    question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
    workload.precision = Precision::kFp8;
  }
  return question;
}

// Returns the dimension that a reason is about.
std::string DimensionOf(const std::string& reason) {
  return reason.find("recomputed layers") != std::string::npos ? "recomputed layers"
                                                               : reason.substr(0, reason.find(' '));
}

// Returns the build's number, or a larger one for a long run: scripts/random_problems.sh.
int ProblemCount() {
  const char* const text = std::getenv("MESHWRIGHT_RANDOM_SEEDS");
  return text == nullptr ? MESHWRIGHT_RANDOM_SEEDS : std::max(1, std::atoi(text));
}

constexpr int kPairs = 60'000;
constexpr int kProblemsOfEveryDimension = 10;
// The rounding error: each line of a breakdown is rounded to bytes, and so are their sums.
constexpr std::int64_t kRounding = 8;

// Checks by brute force that whenever the order compares two plans, the model's memory agrees.
TEST(NeedsAtLeast, HoldsForTheModel) {
  std::mt19937 random(7);
  std::map<std::string, int> seen;  // pairs that differ in only one dimension
  int ordered = 0;
  for (int i = 0; i < ProblemCount(); ++i) {
    Problem problem = OpenProblem(RandomQuestion(random));
    if (random() % 2 == 0) problem.space.whole_weights_percents = {0, 40, 100};
    const std::vector<Evaluated> plans = AllPlans(problem).plans();
    std::map<std::pair<int, int>, std::vector<const Evaluated*>> by_shape;
    for (const Evaluated& e : plans) {
      by_shape[{e.plan.tensor_parallel, e.plan.pipeline_parallel}].push_back(&e);
    }
    for (int pair = 0; pair < kPairs && !plans.empty(); ++pair) {
      const Evaluated& a = plans[random() % plans.size()];
      const auto& alike = by_shape[{a.plan.tensor_parallel, a.plan.pipeline_parallel}];
      const Evaluated& b = *alike[random() % alike.size()];
      const auto reasons = NeedsAtLeast(a.plan, b.plan, ToEstimatorProblem(problem));
      if (!reasons.has_value() || a.plan == b.plan) continue;
      ++ordered;
      if (reasons->size() == 1) ++seen[DimensionOf(reasons->front())];
      EXPECT_GE(a.estimate.reserved_memory.count + kRounding, b.estimate.reserved_memory.count)
          << fmt::format("{} by {}: {}\n{}", problem.profile.name, fmt::join(*reasons, ", "),
                         MakePlanKey(a.plan).text, MakePlanKey(b.plan).text);
    }
  }
  EXPECT_GT(ordered, 1000);
  // The few problems of a build with sanitizers do not cover every dimension.
  if (ProblemCount() < kProblemsOfEveryDimension) return;
  for (const std::string_view dimension :
       {"micro_batch_size", "context_parallel", "recompute", "recomputed layers", "zero_stage",
        "states", "sequence_parallel", "expert_parallel", "optimizer_offload_ratio",
        "activation_offload_ratio", "whole_weights_ratio", "schedule"}) {
    EXPECT_GT(seen[std::string(dimension)], 0) << dimension;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
