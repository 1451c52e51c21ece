// Measures whole searches with all rules: plans of the space that are decided on per second, by
// cutting or by evaluation.
#include <benchmark/benchmark.h>

#include "bench/questions.h"
#include "search_space/space/space.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {
namespace {

void BM_Search(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  std::int64_t decided = 0;
  double evaluated = 0;
  for (auto _ : state) {
    const SearchFound found = SearchExhaustively(space, ToEstimatorProblem(problem), {}, {});
    decided += found.summary.space_count;
    evaluated += static_cast<double>(found.summary.evaluated_count);
  }
  state.SetItemsProcessed(decided);
  // Reports the milliseconds that each rule's hooks take on all cores together, including the
  // clock's own time.
  const SearchFound timed =
      SearchExhaustively(space, ToEstimatorProblem(problem), {}, {.times_rules = true});
  for (const RuleTally& tally : timed.rules) {
    state.counters[std::string(tally.rule->name) + "_ms"] = 1e3 * tally.time.count();
  }
  state.counters["evaluated_per_second"] =
      benchmark::Counter(evaluated, benchmark::Counter::kIsRate);
}

MESHWRIGHT_ASK(BM_Search, llama2_70b_on_128_a100)->Unit(benchmark::kMillisecond)->UseRealTime();
MESHWRIGHT_ASK(BM_Search, gpt3_175b_on_4096_a100)->Unit(benchmark::kMillisecond)->UseRealTime();
MESHWRIGHT_ASK(BM_Search, deepseek_v3_on_2048_h800)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace meshwright
