// Measures candidates per second through the socket of a vendor's model, which is the template in
// C++ run as a program. Compares that with the same model when no columns are written or read,
// which shows the cost of the contract.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

#include "server/plugins/conformance/conformance.h"
#include "server/plugins/conformance/conformance_session.h"
#include "server/plugins/model_process.h"
#include "server/plugins/wire/model_client.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

const Problem& SmallProblem() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  static const Problem* const problem =
      new Problem(ResolveProblem(ConformanceQuestion("nvidia-a100-sxm4-80gb"), *knowledge).value());
  return *problem;
}

// Returns the template's process, which the threads of a run share.
const ModelProcess& Model() {
  static const std::unique_ptr<ModelProcess> process = [] {
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    auto started =
        ModelProcess::Start({.command = {(folder / "template_cost_model_cpp").string()}});
    if (!started.ok() || !(*started)->WaitForSocket(std::chrono::seconds(10)).ok()) std::abort();
    return *std::move(started);
  }();
  return *process;
}

void CountCandidates(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

// Measures what a study does for each batch: it sends plans and receives unconverted figures that
// were checked.
void BM_PlansThroughSocket(benchmark::State& state) {
  const auto client = ModelClient::Connect(Model().socket(), std::chrono::seconds(10)).value();
  const Problem& problem = SmallProblem();
  const std::int64_t context = client->OpenContext(problem, {}, {}).value().handle;
  const auto plans = ConformancePlans(problem, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    const auto figures = client->EstimateBatch(context, plans, problem, {});
    if (!figures.ok()) state.SkipWithError("EstimateBatch failed");
    benchmark::DoNotOptimize(figures);
  }
  CountCandidates(state);
}
BENCHMARK(BM_PlansThroughSocket)
    ->ArgName("batch")
    ->Arg(1)
    ->Arg(16)
    ->Arg(256)
    ->Arg(1024)
    ->UseRealTime();
BENCHMARK(BM_PlansThroughSocket)->ArgName("batch")->Arg(1024)->Threads(2)->UseRealTime();

// Measures only the columns.
void BM_WriteColumns(benchmark::State& state) {
  const Problem& problem = SmallProblem();
  const auto plans = ConformancePlans(problem, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(ToCandidates(plans, problem));
  CountCandidates(state);
}
BENCHMARK(BM_WriteColumns)->ArgName("batch")->Arg(1024);

}  // namespace
}  // namespace meshwright
