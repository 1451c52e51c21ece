// Whole searches with all rules: plans of the space decided on a second, cut or evaluated.
#include <benchmark/benchmark.h>

#include "bench/questions.h"
#include "server/tuner/strategies/exhaustive.h"

namespace meshwright {
namespace {

void BM_Search(benchmark::State& state, const BenchInput& input) {
  const Problem problem = ProblemOf(input);
  const SearchSpace space = SpaceOf(problem);
  std::int64_t decided = 0;
  double evaluated = 0;
  for (auto _ : state) {
    const SearchFound found = SearchExhaustively(space, ViewOf(problem), {}, {});
    decided += found.summary.space_count;
    evaluated += static_cast<double>(found.summary.evaluated_count);
  }
  state.SetItemsProcessed(decided);
  state.counters["evaluated_per_second"] =
      benchmark::Counter(evaluated, benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(BM_Search, llama2_70b_on_128_a100, Llama2_70bOn128A100())
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Search, gpt3_175b_on_4096_a100, Gpt3_175bOn4096A100())
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_Search, deepseek_v3_on_2048_h100, DeepseekV3On2048H100())
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace meshwright
