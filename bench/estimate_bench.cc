// Measures how many plans are estimated per second, over plans drawn from the whole space. A search
// visits neighbours, which share more, so it is faster than this (search_bench).
#include <benchmark/benchmark.h>

#include "bench/questions.h"
#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/program.h"
#include "estimator/pipeline/simulation.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr std::size_t kPlans = 1000;

template <typename Estimator>
void Measure(benchmark::State& state, const std::vector<ParallelPlan>& plans, Estimator estimate) {
  for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(estimate(plan));  // warms up
  for (auto _ : state) {
    for (const ParallelPlan& plan : plans) benchmark::DoNotOptimize(estimate(plan));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(plans.size()));
}

// Measures step time and memory of every stage by the closed form.
void BM_ClosedFormWarm(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  AnalyticModel model(ToEstimatorProblem(problem));
  Measure(state, DrawPlans(problem, kPlans),
          [&](const ParallelPlan& plan) { return model.ClosedForm(plan).step_time.count(); });
}

// Measures a finalist whose layers were priced before: 16 stages, 1,536 / (4 x 3) = 128
// micro-batches. It computes the step time, with the pipeline simulated, and the memory of every
// stage.
void BM_Finalist(benchmark::State& state, Schedule schedule) {
  const Problem problem = ProblemOf("gpt3_175b_on_512_a100");
  AnalyticModel model(ToEstimatorProblem(problem));
  Measure(state,
          {{.tensor_parallel = 8,
            .sequence_parallel = true,
            .pipeline_parallel = 16,
            .virtual_pipeline = schedule == Schedule::kInterleaved1f1b ? 2 : 1,
            .data_parallel = 4,
            .micro_batch_size = 3,
            .zero_stage = 1,
            .schedule = schedule}},
          [&](const ParallelPlan& plan) { return model.Quick(plan).step_time.count(); });
}

// Measures only the pipeline of such a plan, in which every stage is a little slower than the one
// before.
void BM_Simulate(benchmark::State& state, Schedule schedule) {
  std::vector<StageWork> stages;
  stages.reserve(16);
  for (int i = 0; i < 16; ++i) {
    stages.push_back(
        {.forward = Seconds(1 + 0.01 * i), .backward = Seconds(2), .weight_gradient = Seconds(1)});
  }
  const PipelineProgram program = {.schedule = schedule,
                                   .micro_batches = 128,
                                   .virtual_stages = schedule == Schedule::kInterleaved1f1b ? 4 : 1,
                                   .stages = stages};
  PipelineSimulator simulator;
  for (auto _ : state) benchmark::DoNotOptimize(simulator.Simulate(program).count());
  state.SetItemsProcessed(state.iterations());
}

// Measures an estimate as the search ranks it: simulated.
void BM_QuickWarm(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  AnalyticModel model(ToEstimatorProblem(problem));
  Measure(state, DrawPlans(problem, kPlans),
          [&](const ParallelPlan& plan) { return model.Quick(plan).step_time.count(); });
}

// Measures an estimate with the breakdown, the memory of every stage and the interval.
void BM_FullWarm(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  AnalyticModel model(ToEstimatorProblem(problem));
  Measure(state, DrawPlans(problem, kPlans),
          [&](const ParallelPlan& plan) { return model.Full(plan).step_time.count(); });
}

// Measures a new model each time, with nothing priced yet.
void BM_FirstPlanCold(benchmark::State& state, std::string_view question) {
  const Problem problem = ProblemOf(question);
  Measure(state, DrawPlans(problem, 10), [&](const ParallelPlan& plan) {
    AnalyticModel model(ToEstimatorProblem(problem));
    return model.Quick(plan).step_time.count();
  });
}

MESHWRIGHT_BENCHMARK(BM_ClosedFormWarm);
BENCHMARK_CAPTURE(BM_Finalist, 1f1b, Schedule::k1f1b);
BENCHMARK_CAPTURE(BM_Finalist, interleaved_1f1b, Schedule::kInterleaved1f1b);
BENCHMARK_CAPTURE(BM_Finalist, zb_h1, Schedule::kZbH1);
BENCHMARK_CAPTURE(BM_Finalist, dualpipe, Schedule::kDualpipe);
BENCHMARK_CAPTURE(BM_Simulate, 1f1b, Schedule::k1f1b);
BENCHMARK_CAPTURE(BM_Simulate, interleaved_1f1b, Schedule::kInterleaved1f1b);
BENCHMARK_CAPTURE(BM_Simulate, zb_h1, Schedule::kZbH1);
BENCHMARK_CAPTURE(BM_Simulate, dualpipe, Schedule::kDualpipe);
MESHWRIGHT_BENCHMARK(BM_QuickWarm);
MESHWRIGHT_BENCHMARK(BM_FullWarm);
MESHWRIGHT_BENCHMARK(BM_FirstPlanCold);

}  // namespace
}  // namespace meshwright
