// Measures how fast nodes are judged: checks of one rule at one node per second, and recomputation
// choices narrowed per second.
#include <benchmark/benchmark.h>

#include "bench/questions.h"
#include "estimator/model/analytic_model.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr int kNodes = 20'000;
constexpr std::size_t kPlans = 1000;

struct Node {
  ParallelPlan plan = {};
  int depth = 0;
};

void BM_Rules(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  std::vector<Node> nodes;
  for (PlanWalk walk(space); static_cast<int>(nodes.size()) < kNodes && walk.Next();) {
    nodes.push_back({walk.plan(), walk.depth()});
    // No rule judges a recomputation choice by itself.
    if (walk.depth() == static_cast<int>(Dimension::kRecompute)) walk.Skip();
  }
  const EstimatorProblem view = ToEstimatorProblem(problem);
  const PruneContext context = {.problem = view, .space = space};
  std::int64_t checks = 0;
  for (auto _ : state) {
    for (const Node& node : nodes) {
      for (const PruneRule& rule : PruneRules()) {
        if (rule.on_prefix == nullptr) continue;
        benchmark::DoNotOptimize(rule.on_prefix(context, node.plan, node.depth));
        ++checks;
      }
    }
  }
  state.SetItemsProcessed(checks);
}

// Measures how many plans per second the memory and dominance rules decide on, counting all
// choices.
void BM_NarrowRecompute(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  const std::vector<ParallelPlan> plans = DrawPlans(problem, kPlans);
  AnalyticModel model(ToEstimatorProblem(problem));
  std::int64_t choices = 0;
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) {
      const NarrowedRecompute narrowed = NarrowRecompute(model, space, plan, {});
      choices += static_cast<std::int64_t>(narrowed.kept.size()) + narrowed.pruned_by_memory +
                 narrowed.pruned_by_dominance;
    }
  }
  state.SetItemsProcessed(choices);
}

MESHWRIGHT_BENCHMARK(BM_Rules);
MESHWRIGHT_BENCHMARK(BM_NarrowRecompute);

}  // namespace
}  // namespace meshwright
