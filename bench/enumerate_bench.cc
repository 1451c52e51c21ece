// Measures how fast the space is walked: nodes (prefixes of plans) per second, without pruning.
#include <benchmark/benchmark.h>

#include "bench/questions.h"
#include "search_space/space/space.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr int kNodes = 100'000;  // first nodes of each walk; whole spaces have up to billions

void BM_Walk(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  std::int64_t nodes = 0;
  for (auto _ : state) {
    PlanWalk walk(space);
    for (int i = 0; i < kNodes && walk.Next(); ++i) ++nodes;
    benchmark::DoNotOptimize(walk.plan());
  }
  state.SetItemsProcessed(nodes);
}

// Measures the additional cost of a rule that cuts a subtree: counting the plans below it.
void BM_Count(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  for (auto _ : state) benchmark::DoNotOptimize(space.Count());
  state.SetItemsProcessed(state.iterations());
}

MESHWRIGHT_BENCHMARK(BM_Walk);
MESHWRIGHT_BENCHMARK(BM_Count);

}  // namespace
}  // namespace meshwright
