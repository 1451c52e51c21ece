#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <random>
#include <tuple>
#include <utility>

#include "estimator/model/plan_bounds.h"
#include "pruner/pruner.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "tests/pruner/all_plans.h"
#include "tests/pruner/open_problem.h"
#include "tests/pruner/random_question.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// The laws of pruning, checked on random small problems: the search with its rules finds the best
// of all legal plans, and more memory never hurts.

std::optional<Evaluated> BestUnder(const std::vector<Evaluated>& plans, Bytes capacity) {
  const Evaluated* best = nullptr;
  for (const Evaluated& e : plans) {
    if (e.estimate.reserved_memory > capacity) continue;
    if (best == nullptr ||
        std::tie(e.estimate.step_time, e.plan) < std::tie(best->estimate.step_time, best->plan)) {
      best = &e;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

// Returns capacities from "nothing fits" to "everything fits".
std::vector<Bytes> Capacities(const std::vector<Evaluated>& plans) {
  std::vector<Bytes> reserved;
  reserved.reserve(plans.size());
  for (const Evaluated& e : plans) reserved.push_back(e.estimate.reserved_memory);
  std::sort(reserved.begin(), reserved.end());
  if (reserved.empty()) return {GiB(80)};  // for example 12 devices for 2 sequences and 2 layers
  return {reserved.front() - Bytes{1}, reserved.front(), reserved[reserved.size() / 20],
          reserved[reserved.size() / 3], reserved.back()};
}

// Returns the build's number, or a larger one for a long run: scripts/random_problems.sh.
int SeedCount() {
  const char* const text = std::getenv("MESHWRIGHT_RANDOM_SEEDS");
  return text == nullptr ? MESHWRIGHT_RANDOM_SEEDS : std::max(1, std::atoi(text));
}

// Returns true if every stage recomputes the same number of layers in the same way.
bool HasOneNumber(const ParallelPlan& plan) {
  if (!plan.recompute.selective_layer_counts.empty()) return false;
  const std::vector<int>& counts = plan.recompute.layer_counts;
  return std::ranges::adjacent_find(counts, std::not_equal_to()) == counts.end();
}

// Returns true if a plan is in the part of the space that a user allows.
bool IsLeft(const ParallelPlan& plan, const SpaceOptions& options) {
  const auto allows = [&](Dimension dimension, int value) {
    const auto chosen = options.chosen.find(dimension);
    return chosen == options.chosen.end() || chosen->second.Allows(value);
  };
  const bool is_stated = options.chosen.contains(Dimension::kRecompute) ||
                         options.recomputed_layers != DimensionChoice();
  if (!HasOneNumber(plan) && is_stated) return false;
  return allows(Dimension::kTensorParallel, plan.tensor_parallel) &&
         allows(Dimension::kZeroStage, plan.zero_stage) &&
         allows(Dimension::kWholeWeights, static_cast<int>(100 * plan.whole_weights_ratio)) &&
         allows(Dimension::kActivationOffload,
                static_cast<int>(100 * plan.activation_offload_ratio)) &&
         allows(Dimension::kRecompute, static_cast<int>(plan.recompute.granularity)) &&
         (plan.recompute.layer_counts.empty() ||
          options.recomputed_layers.Allows(plan.recompute.layer_counts.front()));
}

// Returns the same problem with a restricted space.
Problem Narrowed(Problem problem, std::mt19937& random) {
  SpaceOptions& space = problem.space;
  if (random() % 2 == 0) space.chosen[Dimension::kTensorParallel] = {.at_least = 2};
  // Without 0, no plan is another plan written differently.
  const std::vector<int> stages[] = {{0, 1}, {1}, {2, 3}};
  if (random() % 2 == 0) space.chosen[Dimension::kZeroStage] = {.values = stages[random() % 3]};
  DimensionChoice granularities;
  for (int value = 0; value < 3; ++value) {
    if (random() % 2 == 0) granularities.values.push_back(value);
  }
  if (!granularities.values.empty()) space.chosen[Dimension::kRecompute] = granularities;
  if (random() % 2 == 0) space.recomputed_layers = {.at_least = 2};
  if (random() % 4 == 0) space.chosen[Dimension::kActivationOffload] = {.values = {0, 50}};
  if (random() % 4 == 0) {
    space.chosen[Dimension::kWholeWeights] = {.values = {40, space.whole_weights_percents.back()}};
  }
  return problem;
}

SearchFound Search(const Problem& problem, const std::vector<std::string>& disabled_rules,
                   const Calibration& calibration = {}) {
  return SearchExhaustively(SpaceOf(problem), ToEstimatorProblem(problem), calibration,
                            {.plan_count = 3, .disabled_rules = disabled_rules});
}

std::string Describe(const Problem& problem) {
  const NodePool& pool = problem.cluster.pools.front();
  return fmt::format("{} nodes of {}, {} layers of {}, {} experts, {} x {} tokens, {}, {} bytes",
                     pool.node_count, pool.devices_per_node, problem.model.layer_count,
                     problem.model.hidden_size,
                     problem.model.moe.has_value() ? problem.model.moe->expert_count : 0,
                     problem.workload.global_batch_size, problem.workload.sequence_length,
                     problem.profile.name, pool.memory_capacity.count);
}

std::string Describe(const Evaluated& e) {
  return fmt::format("{} s, {} bytes, {}", e.estimate.step_time.count(),
                     e.estimate.reserved_memory.count, MakePlanKey(e.plan).text);
}

// Expects that the winner of a search is `best`, or that there is none.
void ExpectWinner(const Problem& problem, const SearchFound& found,
                  const std::optional<Evaluated>& best, bool has_ties) {
  EXPECT_TRUE(found.summary.complete);
  ASSERT_EQ(found.best.empty(), !best.has_value()) << (best.has_value() ? Describe(*best) : "");
  if (!best.has_value()) return;
  const Evaluated& winner = found.best.front();
  EXPECT_EQ(winner.estimate.step_time, best->estimate.step_time)
      << "found " << Describe(winner) << "\nbest  " << Describe(*best)
      << "\nrules that reject the best: "
      << testing::PrintToString(RulesThatReject(best->plan, problem));
  // Different numbers of recomputed layers in some stage may take the same time.
  EXPECT_TRUE(has_ties || winner.plan == best->plan) << Describe(winner) << Describe(*best);
}

// Expects the search to find the best of `plans`, all legal ones, or the best that rules which are
// not proven leave.
void ExpectOptimum(Problem problem, const std::vector<Evaluated>& plans,
                   const Calibration& calibration = {}) {
  const std::vector<Evaluated> left = LeftByUnprovenRules(plans, problem);
  for (const Bytes capacity : Capacities(plans)) {
    problem.cluster.pools.front().memory_capacity = capacity;
    SCOPED_TRACE(Describe(problem));
    const bool has_ties = problem.profile.recomputes_by_stage || problem.profile.mixes_recompute;
    const SearchFound proven = Search(problem, UnprovenRules(), calibration);
    ExpectWinner(problem, proven, BestUnder(plans, capacity), has_ties);
    ExpectWinner(problem, Search(problem, {}, calibration), BestUnder(left, capacity), has_ties);
  }
}

// Returns the calibration by runs of six of `plans`, which took 0.6 to 1.6 times the modelled
// values.
Calibration Learnt(const Problem& problem, const std::vector<Evaluated>& plans,
                   std::mt19937& random) {
  if (plans.empty()) return {};
  std::vector<RunResidual> runs;
  for (int i = 0; i < 6; ++i) {
    const Evaluated& run = plans[random() % plans.size()];
    runs.push_back({.log_ratio = static_cast<double>(random() % 1001) / 1000 - 0.5,
                    .point = PointOf(run.plan, ToEstimatorProblem(problem))});
  }
  const FittedResiduals fitted =
      FitResiduals(runs, {.job = 0.2, .plan = 0.4, .noise = 0.02, .noise_rows = 100});
  return {.time_ratio = std::exp(JobLogFactor(fitted)), .time = fitted};
}

// Prices all plans again. A factor for each plan breaks no bound and no rule.
void ExpectOptimumWithWhatRunsTaught(const Problem& problem, std::vector<Evaluated> plans,
                                     std::mt19937& random) {
  const Calibration calibration = Learnt(problem, plans, random);
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  for (Evaluated& e : plans) e.estimate = model.Quick(e.plan);
  ExpectOptimum(problem, plans, calibration);
}

// Expects the search to cover exactly the part of the space that a user allows.
void ExpectBestOfWhatIsLeft(const Problem& whole, std::vector<Evaluated> plans,
                            std::mt19937& random) {
  Problem problem = Narrowed(whole, random);
  SCOPED_TRACE(Describe(problem));
  std::erase_if(plans, [&](const Evaluated& e) { return !IsLeft(e.plan, problem.space); });
  plans = LeftByUnprovenRules(std::move(plans), problem);
  for (const Bytes capacity : Capacities(plans)) {
    problem.cluster.pools.front().memory_capacity = capacity;
    const std::optional<Evaluated> best = BestUnder(plans, capacity);
    const SearchFound found = Search(problem, {});
    ASSERT_EQ(found.best.empty(), !best.has_value());
    if (!best.has_value()) continue;
    EXPECT_EQ(found.best.front().estimate.step_time, best->estimate.step_time)
        << Describe(found.best.front()) << "\n"
        << Describe(*best);
    EXPECT_TRUE(IsLeft(found.best.front().plan, problem.space)) << Describe(found.best.front());
  }
}

// Expects that the plans of an answer are the best of their kind, and that no two of them differ
// only in micro-batch and offload. With the rules disabled, the search covers the plans that the
// space lists, which do not include numbers by stage.
void ExpectDifferentKinds(const Problem& problem, std::vector<Evaluated> plans) {
  SCOPED_TRACE(Describe(problem));
  const auto kind_of = [](ParallelPlan plan) {
    plan.micro_batch_size = 0;
    plan.optimizer_offload_ratio = 0;
    plan.activation_offload_ratio = 0;
    plan.whole_weights_ratio = 0;
    return plan;
  };
  std::erase_if(plans,
                [&](const Evaluated& e) { return !e.estimate.fits || !HasOneNumber(e.plan); });
  plans = LeftByUnprovenRules(std::move(plans), problem);
  std::sort(plans.begin(), plans.end(), [](const Evaluated& a, const Evaluated& b) {
    return std::tie(a.estimate.step_time, a.plan) < std::tie(b.estimate.step_time, b.plan);
  });
  // The times of the best plan of each kind. An answer has no dominated plans, so only the times
  // of its own plans can be compared.
  const SearchFound found = Search(problem, {"dominance", "memory", "bound"});
  std::vector<ParallelPlan> kinds;
  std::size_t next = 0;
  for (const Evaluated& e : plans) {
    const ParallelPlan kind = kind_of(e.plan);
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    kinds.push_back(kind);
    if (next == found.best.size()) break;
    EXPECT_EQ(found.best[next].estimate.step_time, e.estimate.step_time) << Describe(e);
    EXPECT_EQ(kind_of(found.best[next].plan), kind) << Describe(e);
    ++next;
  }
  EXPECT_EQ(next, found.best.size());
  EXPECT_EQ(found.best.size(), std::min<std::size_t>(3, kinds.size()));
}

// Expects that more memory makes no feasible problem infeasible and no best plan slower.
void ExpectMemoryNeverHurts(Problem problem) {
  std::optional<Seconds> before;
  for (const double gib : {2.6, 2.8, 3.0, 4.0, 8.0, 80.0}) {
    problem.cluster.pools.front().memory_capacity = GiB(gib);
    SCOPED_TRACE(Describe(problem));
    const SearchFound found = Search(problem, {});
    if (found.best.empty()) {
      EXPECT_FALSE(before.has_value());
      continue;
    }
    const Seconds now = found.best.front().estimate.step_time;
    EXPECT_LE(now, before.value_or(now));
    before = now;
  }
}

// Expects that a plan which the dominance rule calls another plan written differently takes no less
// time or memory. ZeRO 3 even holds additional gathered copies.
void ExpectDominatedPlansAreNoBetter(const Problem& problem) {
  const auto rules = PruneRules();
  const PruneRule& dominance = *std::ranges::find(rules, kDominanceRule, &PruneRule::name);
  const SearchSpace space = SpaceOf(problem);
  const EstimatorProblem view = ToEstimatorProblem(problem);
  AnalyticModel model(view);
  for (PlanWalk walk(space); walk.Next();) {
    const auto rejection =
        dominance.on_prefix({.problem = view, .space = space}, walk.plan(), walk.depth());
    if (!rejection.has_value()) continue;
    walk.Skip();
    ParallelPlan plan = walk.plan();
    plan.recompute = {};
    if (!CheckPlan(plan, problem, "plan").empty()) continue;
    const QuickEstimate rejected = model.Quick(plan);
    plan.zero_stage = 0;
    const QuickEstimate kept = model.Quick(plan);
    EXPECT_LE(kept.step_time, rejected.step_time) << MakePlanKey(walk.plan()).text;
    EXPECT_LE(kept.reserved_memory, rejected.reserved_memory) << MakePlanKey(walk.plan()).text;
  }
}

constexpr int kProblemsATest = 5;

class OptimumTest : public testing::TestWithParam<int> {
 protected:
  // Returns the same problems for every law.
  static std::vector<Problem> Problems() {
    std::mt19937 random(static_cast<unsigned>(GetParam()));
    std::vector<Problem> problems;
    problems.reserve(kProblemsATest);
    for (int i = 0; i < kProblemsATest; ++i) {
      problems.push_back(OpenProblem(RandomQuestion(random)));
      if (random() % 3 == 0) problems.back().space.whole_weights_percents = {0, 40, 100};
    }
    return problems;
  }
};

// Listing all plans takes about as long as the searches, so they are listed once for four laws.
TEST_P(OptimumTest, SearchFindsTheBestOfAllLegalPlans) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  for (const Problem& problem : Problems()) {
    const std::vector<Evaluated> plans = AllPlans(problem).plans();
    ExpectOptimum(problem, plans);
    ExpectOptimumWithWhatRunsTaught(problem, plans, random);
    ExpectBestOfWhatIsLeft(problem, plans, random);
    ExpectDifferentKinds(problem, plans);
  }
}

TEST_P(OptimumTest, MemoryNeverHurts) {
  for (const Problem& problem : Problems()) ExpectMemoryNeverHurts(problem);
}

// Expects the same plans, the same nearest miss and the same counts with any number of workers.
void ExpectSameWithAnyWorkers(const Problem& problem) {
  const auto with = [&](int workers) {
    return SearchExhaustively(SpaceOf(problem), ToEstimatorProblem(problem), {},
                              {.plan_count = 3, .worker_count = workers});
  };
  const SearchFound one = with(1);
  std::int64_t decided = one.summary.evaluated_count;
  for (const auto& [rule, count] : one.summary.pruned_count_by_rule) decided += count;
  EXPECT_EQ(decided, one.summary.space_count);
  for (const int workers : {2, 5}) {
    const SearchFound many = with(workers);
    EXPECT_EQ(many.summary.pruned_count_by_rule, one.summary.pruned_count_by_rule);
    EXPECT_EQ(many.summary.evaluated_count, one.summary.evaluated_count);
    ASSERT_EQ(many.best.size(), one.best.size());
    for (std::size_t i = 0; i < one.best.size(); ++i) {
      EXPECT_EQ(many.best[i].plan, one.best[i].plan);
      EXPECT_EQ(many.best[i].estimate.step_time, one.best[i].estimate.step_time);
    }
    ASSERT_EQ(many.nearest.has_value(), one.nearest.has_value());
    if (one.nearest.has_value()) {
      EXPECT_EQ(many.nearest->plan, one.nearest->plan);
    }
  }
}

TEST_P(OptimumTest, AnyNumberOfWorkersGivesTheSameAnswer) {
  for (const Problem& problem : Problems()) ExpectSameWithAnyWorkers(problem);
}

// Layers of this framework cost more under ZeRO. Some bounds are known only for priced layers, so
// the counts would reveal which worker had priced them.
TEST(WorkersTest, PricedLayersAreNotLuck) {
  Question question = TinyQuestion();
  question.workload.framework_name = "deepspeed";
  question.workload.global_batch_size = 64;
  question.cluster.pools = {Nodes(4, 8)};
  ExpectSameWithAnyWorkers(OpenProblem(question));
}

// Plans that the bound cuts would not have been in the answer.
TEST_P(OptimumTest, TheBoundCutsNoneOfTheAnswer) {
  std::int64_t spared = 0;
  for (const Problem& problem : Problems()) {
    const SearchFound with = Search(problem, {});
    const SearchFound without = Search(problem, {"bound"});
    ASSERT_EQ(with.best.size(), without.best.size());
    for (std::size_t i = 0; i < with.best.size(); ++i) {
      EXPECT_EQ(with.best[i].plan, without.best[i].plan);
    }
    EXPECT_LE(with.summary.evaluated_count, without.summary.evaluated_count);
    spared += without.summary.evaluated_count - with.summary.evaluated_count;
  }
  EXPECT_GT(spared, 0);
}

// Evaluated and pruned plans add up to the space, regardless of disabled rules.
TEST_P(OptimumTest, CountsAddUp) {
  for (const Problem& problem : Problems()) {
    for (const std::vector<std::string>& off : {std::vector<std::string>{},
                                                {"dominance"},
                                                {"memory"},
                                                {"bound"},
                                                {"dominance", "bound"}}) {
      const SearchSummary summary = Search(problem, off).summary;
      std::int64_t decided = summary.evaluated_count;
      for (const auto& [rule, count] : summary.pruned_count_by_rule) decided += count;
      EXPECT_EQ(decided, summary.space_count) << fmt::format("{}", fmt::join(off, " "));
    }
  }
}

// A search that is stopped half-way reports it, with any number of workers, and has omitted some
// plans.
TEST_P(OptimumTest, StoppedInTheMiddle) {
  Question question = TinyQuestion();
  question.workload.global_batch_size = 256;  // a space with thousands of groups of plans
  question.cluster.pools = {Nodes(8, 8)};
  const Problem problem = OpenProblem(question);
  for (const int workers : {1, 4}) {
    const SearchFound found = SearchExhaustively(
        SpaceOf(problem), ToEstimatorProblem(problem), {},
        {.stop = [] { return std::optional(StopCause::kDeadline); }, .worker_count = workers});
    EXPECT_FALSE(found.summary.complete);
    EXPECT_EQ(found.summary.stop_cause, StopCause::kDeadline);
    std::int64_t decided = found.summary.evaluated_count;
    for (const auto& [rule, count] : found.summary.pruned_count_by_rule) decided += count;
    EXPECT_LT(decided, found.summary.space_count);
  }
}

// The output layer takes as long as 2.6 layers (32,000 x 1024 of 12 x 1024^2 parameters). In chunks
// of 2 layers 6 and 2 are therefore the most even split: 8 / 2 + 2.6 beside 4 would be 6.6.
TEST(UnevenChunksTest, TheStageOfTheOutputLayerHasFewerLayers) {
  Question question = TinyQuestion();
  question.model.layer_count = 8;
  question.workload.framework_name = "megatron-core";
  Problem problem = OpenProblem(question);
  problem.workload.overlap.pipeline_p2p = true;  // two interleaved stages need it
  problem.space.chosen[Dimension::kPipelineParallel] = {.values = {2}};
  problem.space.chosen[Dimension::kVirtualPipeline] = {.values = {2}};
  std::vector<Evaluated> plans = AllPlans(problem).plans();
  std::erase_if(plans, [](const Evaluated& e) {
    return e.plan.pipeline_parallel != 2 || e.plan.virtual_pipeline != 2;
  });
  const SearchFound found = Search(problem, {});
  ExpectWinner(problem, found, BestUnder(plans, problem.cluster.pools.front().memory_capacity),
               false);
  EXPECT_EQ(found.best.front().plan.layers_per_stage, (std::vector<int>{6, 2}));
}

// LeastTimeIfPriced is a lower bound on the time of a priced plan. Checks up to a fixed number of
// plans of each problem, spread evenly over its space.
TEST_P(OptimumTest, LeastTimeIfPricedIsNotAboveTheTime) {
  constexpr std::int64_t kMaxPlans = 20'000;
  for (const Problem& problem : Problems()) {
    AnalyticModel model(ToEstimatorProblem(problem));
    const SearchSpace space = SpaceOf(problem);
    const std::int64_t stride = space.Count() / kMaxPlans + 1;
    std::int64_t passed = 0;
    for (PlanWalk walk(space); walk.Next();) {
      if (!walk.is_plan() || ++passed % stride != 0) continue;
      if (!CheckPlan(walk.plan(), problem, "plan").empty()) continue;
      const std::optional<Seconds> before = PlanBounds(model).LeastTimeIfPriced(walk.plan());
      const Seconds time = model.Quick(walk.plan()).step_time;
      if (before.has_value()) {
        EXPECT_LE(*before, time);
      }
      const std::optional<Seconds> after = PlanBounds(model).LeastTimeIfPriced(walk.plan());
      ASSERT_TRUE(after.has_value());
      EXPECT_LE(*after, time);
    }
  }
}

TEST_P(OptimumTest, DominatedPlansAreNoBetter) {
  for (const Problem& problem : Problems()) ExpectDominatedPlansAreNoBetter(problem);
}

INSTANTIATE_TEST_SUITE_P(Random, OptimumTest, testing::Range(0, SeedCount()));

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
