#include "pruner/rules/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "estimator/legality/legality.h"
#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/infeasible.h"
#include "tests/pruner/open_problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Compares NarrowRecompute with the evaluation of every choice, for every plan of a small space and
// at capacities at which different choices are the first to fit.

struct Choices {
  std::vector<RecomputeChoice> all = {};
  [[nodiscard]] std::optional<Seconds> BestTime(Bytes capacity) const {
    std::optional<Seconds> best;
    for (const RecomputeChoice& choice : all) {
      if (choice.estimate.reserved_memory > capacity) continue;
      if (!best.has_value() || choice.estimate.step_time < *best) best = choice.estimate.step_time;
    }
    return best;
  }
};

// Evaluates every choice that the framework runs.
Choices Evaluate(AnalyticModel& model, const SearchSpace& space, ParallelPlan plan) {
  Choices choices;
  for (const int code : space.Values(Dimension::kRecompute, plan)) {
    space.Set(Dimension::kRecompute, code, plan);
    if (BrokenRule(model.problem(), plan, Dimension::kRecompute) != nullptr) continue;
    choices.all.push_back({.plan = plan, .estimate = model.Quick(plan)});
  }
  return choices;
}

std::optional<Seconds> BestKept(const NarrowedRecompute& narrowed) {
  std::optional<Seconds> best;
  for (const RecomputeChoice& choice : narrowed.kept) {
    if (!choice.estimate.fits) continue;
    if (!best.has_value() || choice.estimate.step_time < *best) best = choice.estimate.step_time;
  }
  return best;
}

void ExpectLeastMemory(const NarrowedRecompute& narrowed, const Choices& choices) {
  ASSERT_TRUE(narrowed.least_memory.has_value());
  Bytes least = choices.all.front().estimate.reserved_memory;
  for (const RecomputeChoice& choice : choices.all) {
    least = std::min(least, choice.estimate.reserved_memory);
  }
  EXPECT_EQ(narrowed.least_memory->reserved_memory, least);
}

void Compare(const Problem& problem, const ParallelPlan& plan, const Choices& choices) {
  const SearchSpace space = SpaceOf(problem);
  AnalyticModel model(ToEstimatorProblem(problem));
  const Bytes capacity = problem.cluster.pools.front().memory_capacity;
  const auto count = static_cast<std::int64_t>(choices.all.size());
  for (const NarrowOptions options :
       {NarrowOptions{}, NarrowOptions{.by_memory = false}, NarrowOptions{.by_dominance = false},
        NarrowOptions{.by_memory = false, .by_dominance = false}}) {
    SCOPED_TRACE(options.by_memory ? "by memory" : "not by memory");
    SCOPED_TRACE(options.by_dominance ? "by dominance" : "not by dominance");
    const NarrowedRecompute narrowed = NarrowRecompute(model, space, plan, options);
    EXPECT_EQ(BestKept(narrowed), choices.BestTime(capacity));
    EXPECT_LE(narrowed.evaluated, count);
    if (!options.by_memory) {
      EXPECT_EQ(narrowed.pruned_by_memory, 0);
    }
    if (!options.by_dominance) {
      EXPECT_EQ(narrowed.pruned_by_dominance, 0);
    }
    if (options.by_memory) {
      EXPECT_EQ(static_cast<std::int64_t>(narrowed.kept.size()) + narrowed.pruned_by_memory +
                    narrowed.pruned_by_dominance,
                count);
      if (narrowed.kept.empty()) ExpectLeastMemory(narrowed, choices);
    }
    if (options.by_memory && options.by_dominance) {
      EXPECT_LE(narrowed.kept.size(), 3U);
    }
  }
}

// Returns the capacities that distinguish the choices of a plan: nothing fits, each choice just
// fits, all fit.
std::vector<Bytes> TellingCapacities(const Choices& choices) {
  std::vector<Bytes> capacities;
  for (const RecomputeChoice& choice : choices.all) {
    capacities.push_back(choice.estimate.reserved_memory);
    capacities.push_back(choice.estimate.reserved_memory - Bytes{1});
  }
  return capacities;
}

Question RandomQuestion(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  Question question = TinyQuestion();
  if (random() % 2 == 0) question.model = TinyExperts();
  question.model.layer_count = pick({3, 4, 7, 8, 12});
  question.workload.sequence_length = pick({512, 1024, 4096});
  question.workload.attention_kernel =
      random() % 2 == 0 ? AttentionKernel::kFlash2 : AttentionKernel::kUnfused;
  question.cluster.pools = {Nodes(pick({1, 2}), pick({2, 3, 4}))};
  question.workload.global_batch_size = 12 * pick({1, 2});
  // Even splits of layers, and splits by cost.
  question.workload.framework_name = random() % 2 == 0 ? "megatron-core" : "nanotron";
  return question;
}

class RecomputeTest : public testing::TestWithParam<int> {};

TEST_P(RecomputeTest, NarrowingEqualsTryingEverything) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  Problem problem = OpenProblem(RandomQuestion(random));
  const SearchSpace space = SpaceOf(problem);
  constexpr unsigned kOneIn = 97;  // share of the groups of plans that differ only in recomputation
  const int group_depth = static_cast<int>(Dimension::kRecompute);
  for (PlanWalk walk(space); walk.Next();) {
    if (walk.plan().pipeline_parallel > problem.model.layer_count) walk.Skip();
    if (walk.depth() < group_depth) continue;
    walk.Skip();
    if (random() % kOneIn != 0) continue;
    AnalyticModel model(ToEstimatorProblem(problem));
    const Choices choices = Evaluate(model, space, walk.plan());
    for (const Bytes capacity : TellingCapacities(choices)) {
      problem.cluster.pools.front().memory_capacity = capacity;
      SCOPED_TRACE(MakePlanKey(walk.plan()).text);
      Compare(problem, walk.plan(), choices);
      if (HasFailure()) return;
    }
  }
}

// With one micro-batch in flight a stage may need more memory for one recomputed layer than for
// none, because the working set comes with the first. The result is compared with every pair of
// numbers, at every capacity that distinguishes two of them.
TEST(RecomputeByStageTest, EqualsTryingAllNumbers) {
  Question question = TinyQuestion();
  question.model.layer_count = 8;
  question.workload.global_batch_size = 8;
  question.workload.framework_facts = {{.name = "recomputes_by_stage", .value = "true"}};
  question.cluster.pools = {Nodes(1, 2)};
  Problem problem = OpenProblem(question);
  ParallelPlan plan = {.pipeline_parallel = 2, .micro_batch_size = 8};
  AnalyticModel model(ToEstimatorProblem(problem));
  Choices choices = Evaluate(model, SpaceOf(problem), plan);
  plan.recompute.granularity = RecomputeGranularity::kFull;
  for (int first = 0; first <= 4; ++first) {
    for (int last = 0; last <= 4; ++last) {
      plan.recompute.layer_counts = {first, last};
      choices.all.push_back({.plan = plan, .estimate = model.Quick(plan)});
    }
  }
  plan.recompute = {};
  for (const Bytes capacity : TellingCapacities(choices)) {
    problem.cluster.pools.front().memory_capacity = capacity;
    AnalyticModel tight(ToEstimatorProblem(problem));
    EXPECT_EQ(BestKept(NarrowRecompute(tight, SpaceOf(problem), plan, {})),
              choices.BestTime(capacity))
        << capacity.count;
  }
}

// Stages have 8 and 4 layers in two chunks each. Both chunks of a stage recompute the same number
// of layers, so numbers go in steps of two. The result is compared with every pair of them.
TEST(RecomputeByStageTest, ChunksOfUnevenStages) {
  Question question = TinyQuestion();
  question.model.layer_count = 12;
  question.workload.framework_facts = {{.name = "recomputes_by_stage", .value = "true"}};
  question.cluster.pools = {Nodes(1, 2)};
  Problem problem = OpenProblem(question);
  ParallelPlan plan = {.pipeline_parallel = 2,
                       .virtual_pipeline = 2,
                       .micro_batch_size = 2,
                       .schedule = Schedule::kInterleaved1f1b,
                       .layers_per_stage = {8, 4}};
  AnalyticModel model(ToEstimatorProblem(problem));
  Choices choices = Evaluate(model, SpaceOf(problem), plan);
  plan.recompute.granularity = RecomputeGranularity::kFull;
  for (int first = 0; first <= 8; first += 2) {
    for (int last = 0; last <= 4; last += 2) {
      plan.recompute.layer_counts = {first, last};
      choices.all.push_back({.plan = plan, .estimate = model.Quick(plan)});
    }
  }
  plan.recompute = {};
  bool differ = false;
  for (const Bytes capacity : TellingCapacities(choices)) {
    problem.cluster.pools.front().memory_capacity = capacity;
    AnalyticModel tight(ToEstimatorProblem(problem));
    const NarrowedRecompute narrowed = NarrowRecompute(tight, SpaceOf(problem), plan, {});
    EXPECT_EQ(BestKept(narrowed), choices.BestTime(capacity)) << capacity.count;
    for (const RecomputeChoice& choice : narrowed.kept) {
      for (const int layers : choice.plan.recompute.layer_counts) EXPECT_EQ(layers % 2, 0);
      const std::vector<int>& counts = choice.plan.recompute.layer_counts;
      differ = differ || (!counts.empty() && counts.front() != counts.back());
    }
  }
  EXPECT_TRUE(differ);
}

struct MixCase {
  const char* name;
  ParallelPlan plan;
  int layers;  // layers of the largest stage
};

void PrintTo(const MixCase& c, std::ostream* out) { *out << c.name; }

const MixCase kMixCases[] = {
    {"OneStage", {.data_parallel = 2, .micro_batch_size = 8}, 8},
    {"TwoStages", {.pipeline_parallel = 2, .micro_batch_size = 2}, 4},
    {"OneMicroBatch", {.pipeline_parallel = 2, .micro_batch_size = 16}, 4},
    {"Chunks",
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .micro_batch_size = 2,
      .schedule = Schedule::kInterleaved1f1b},
     4},
    {"UnevenChunks",
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .micro_batch_size = 2,
      .schedule = Schedule::kInterleaved1f1b,
      .layers_per_stage = {6, 2}},
     6},
};

class RecomputeMixTest : public testing::TestWithParam<MixCase> {
 protected:
  // Returns the listed choices and every pair of numbers of full and selective layers in each
  // stage.
  static Choices AllMixes(const Problem& problem) {
    AnalyticModel model(ToEstimatorProblem(problem));
    ParallelPlan plan = GetParam().plan;
    Choices choices = Evaluate(model, SpaceOf(problem), plan);
    const int step = plan.virtual_pipeline;
    std::vector<std::pair<int, int>> pairs;
    for (int full = 0; full <= GetParam().layers; full += step) {
      for (int selective = 0; full + selective <= GetParam().layers; selective += step) {
        pairs.emplace_back(full, selective);
      }
    }
    plan.recompute.granularity = RecomputeGranularity::kFull;
    for (const auto& first : pairs) {
      for (const auto& last : pairs) {
        if (plan.pipeline_parallel == 1 && first != last) continue;
        plan.recompute.layer_counts = {first.first, last.first};
        plan.recompute.selective_layer_counts = {first.second, last.second};
        choices.all.push_back({.plan = plan, .estimate = model.Quick(plan)});
      }
    }
    return choices;
  }
};

// Checks every capacity that distinguishes two choices. Unfused attention stores its scores, which
// selective recomputation saves.
TEST_P(RecomputeMixTest, EqualsTryingAllMixes) {
  Question question = TinyQuestion();
  question.model.layer_count = 8;
  question.workload.attention_kernel = AttentionKernel::kUnfused;
  question.workload.framework_facts = {{.name = "mixes_recompute", .value = "true"}};
  question.cluster.pools = {Nodes(1, 2)};
  Problem problem = OpenProblem(question);
  const Choices choices = AllMixes(problem);
  bool is_mixed = false;
  for (const Bytes capacity : TellingCapacities(choices)) {
    problem.cluster.pools.front().memory_capacity = capacity;
    AnalyticModel tight(ToEstimatorProblem(problem));
    const NarrowedRecompute narrowed =
        NarrowRecompute(tight, SpaceOf(problem), GetParam().plan, {});
    EXPECT_EQ(BestKept(narrowed), choices.BestTime(capacity)) << capacity.count;
    // Checking every choice loses none of them.
    EXPECT_EQ(BestKept(NarrowRecompute(tight, SpaceOf(problem), GetParam().plan,
                                       {.by_dominance = false})),
              choices.BestTime(capacity))
        << capacity.count;
    for (const RecomputeChoice& choice : narrowed.kept) {
      is_mixed = is_mixed || !choice.plan.recompute.selective_layer_counts.empty();
    }
  }
  EXPECT_TRUE(is_mixed);
}

INSTANTIATE_TEST_SUITE_P(All, RecomputeMixTest, testing::ValuesIn(kMixCases),
                         [](const auto& test) { return std::string(test.param.name); });

// If selective recomputation of every layer is the best mix, it is kept only once.
TEST(RecomputeMixesTest, SelectiveEverywhereIsKeptOnce) {
  Question question = TinyQuestion();
  question.workload.attention_kernel = AttentionKernel::kUnfused;
  question.workload.framework_facts = {{.name = "mixes_recompute", .value = "true"}};
  Problem problem = OpenProblem(question);
  const ParallelPlan plan = {.data_parallel = 4};
  ParallelPlan selective = plan;
  selective.recompute.granularity = RecomputeGranularity::kSelective;
  AnalyticModel model(ToEstimatorProblem(problem));
  problem.cluster.pools.front().memory_capacity = model.Quick(selective).reserved_memory;
  AnalyticModel tight(ToEstimatorProblem(problem));
  const NarrowedRecompute narrowed = NarrowRecompute(tight, SpaceOf(problem), plan, {});
  ASSERT_EQ(narrowed.kept.size(), 1U);
  EXPECT_EQ(narrowed.kept.front().plan, selective);
}

// Under 1F1B the first stages hold the most micro-batches, so they recompute more. One layer less
// does not fit in any stage, and the step is faster than with the same number in all stages.
TEST(RecomputeByStageTest, AsFewLayersInEachStageAsFit) {
  Question question = TinyQuestion();
  question.model.layer_count = 16;
  question.workload.framework_facts = {{.name = "recomputes_by_stage", .value = "true"}};
  Problem problem = OpenProblem(question);
  ParallelPlan plan = {.pipeline_parallel = 4, .zero_stage = 0};
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {3, 3, 3, 3}};
  AnalyticModel model(ToEstimatorProblem(problem));
  const QuickEstimate everywhere = model.Quick(plan);
  problem.cluster.pools.front().memory_capacity = everywhere.reserved_memory;
  AnalyticModel tight(ToEstimatorProblem(problem));
  const NarrowedRecompute narrowed = NarrowRecompute(tight, SpaceOf(problem), plan, {});
  ASSERT_FALSE(narrowed.kept.empty());
  const RecomputeChoice& choice = narrowed.kept.back();
  const std::vector<int>& counts = choice.plan.recompute.layer_counts;
  EXPECT_EQ(counts.front(), 3);
  EXPECT_LT(counts[2], 3);  // the last stage also holds the logits
  EXPECT_TRUE(choice.estimate.fits);
  EXPECT_LT(choice.estimate.step_time, everywhere.step_time);
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    if (counts[stage] == 0) continue;
    ParallelPlan fewer = choice.plan;
    --fewer.recompute.layer_counts[stage];
    EXPECT_FALSE(tight.Quick(fewer).fits) << stage;
  }
  // A user who limits the number means the same number for all stages.
  problem.space.recomputed_layers = {.at_least = 1};
  const NarrowedRecompute bounded = NarrowRecompute(tight, SpaceOf(problem), plan, {});
  EXPECT_EQ(bounded.kept.back().plan.recompute.layer_counts, (std::vector<int>{3, 3, 3, 3}));
}

INSTANTIATE_TEST_SUITE_P(Random, RecomputeTest, testing::Range(0, MESHWRIGHT_RANDOM_SEEDS));

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
