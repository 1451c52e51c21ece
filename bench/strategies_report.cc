// Reports how fast each strategy finds good plans: the best step time so far against evaluations,
// on five questions. This is not a benchmark: it counts evaluations, not seconds. Writes a row to
// stdout whenever a search has found a better plan, and one at the end;
// scripts/strategies_report.sh makes docs/search/ from them.
//
//   strategies_report [SEEDS [EVALUATIONS [QUESTION]]]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "bench/questions.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/search_by_strategy.h"
#include "server/tuner/search/strategies.h"

namespace meshwright {
namespace {

constexpr std::string_view kQuestions[] = {"llama2_70b_on_128_a100", "gpt3_175b_on_512_a100",
                                           "gpt3_175b_on_4096_a100", "deepseek_v3_on_2048_h800",
                                           "llama3_1_405b_on_16384_h100"};

// Writes a search's progress as rows.
class Trace {
 public:
  // `before` counts evaluations that were made before the first that the search counts.
  explicit Trace(std::string head, std::int64_t before = 0)
      : head_(std::move(head)), before_(before) {}

  void Watch(const Progress& progress) {
    const double best = progress.best_step_time.value_or(Seconds(0)).count();
    if (best != best_) Write(progress.evaluated_count, best);
  }

  void End(const SearchFound& found) {
    Write(found.summary.evaluated_count,
          found.best.empty() ? 0 : found.best.front().estimate.step_time.count());
  }

 private:
  void Write(std::int64_t evaluations, double best) {
    best_ = best;
    fmt::print("{},{},{}\n", head_, before_ + evaluations,
               best > 0 ? fmt::format("{:.9g}", best) : "");
  }

  std::string head_;
  std::int64_t before_;
  double best_ = 0;
};

// Writes the time to stderr, because seconds differ between machines.
template <typename Search>
void Time(std::string_view question, std::string_view strategy, const Search& search) {
  const std::clock_t start = std::clock();
  search();
  fmt::print(stderr, "{} {}: {:.2f} s of one core\n", question, strategy,
             static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
}

void Report(std::string_view question, int seeds, int evaluations) {
  const Problem problem = ProblemOf(question);
  const SearchSpace space = SpaceOf(problem);
  Trace exhaustive(fmt::format("{},{},0", question, kExhaustive),
                   static_cast<std::int64_t>(kSeedCount));
  SearchOptions options = {.plan_count = 1, .worker_count = 1};
  options.on_progress = [&](const Progress& progress) { exhaustive.Watch(progress); };
  Time(question, kExhaustive, [&] {
    exhaustive.End(SearchExhaustively(space, ToEstimatorProblem(problem), {}, options));
  });
  for (const StrategyRow& row : Strategies()) {
    if (row.name == kExhaustive) continue;  // it ran above
    for (int seed = 1; seed <= seeds; ++seed) {
      const auto strategy = row.make({.space = space,
                                      .problem = ToEstimatorProblem(problem),
                                      .seed = static_cast<std::uint64_t>(seed)});
      AnalyticModel model(ToEstimatorProblem(problem));
      Trace trace(fmt::format("{},{},{}", question, row.name, seed));
      options.on_progress = [&](const Progress& progress) { trace.Watch(progress); };
      Time(question, row.name,
           [&] { trace.End(SearchByStrategy(*strategy, model, space, options, evaluations)); });
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 11;
  const int evaluations = argc > 2 ? std::atoi(argv[2]) : meshwright::kDefaultEvaluationLimit;
  const std::string_view only = argc > 3 ? argv[3] : "";
  fmt::print("question,strategy,seed,evaluations,best_step_time_seconds\n");
  for (const std::string_view question : meshwright::kQuestions) {
    if (only.empty() || only == question) meshwright::Report(question, seeds, evaluations);
  }
  return 0;
}
