// Times the search of the mixes of two pools, and says how far it is proven:
//
//   build/release/bin/mixed_report [FRAMEWORK [NODES [MEMORY_GIB [BOUNDARY_GB_PER_SECOND]]]]
//
// Llama-2-70B on NODES nodes of eight A100 and as many of eight H100.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/model.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_search.h"

namespace meshwright {
namespace {

Question TwoPools(const char* framework, int nodes, double boundary) {
  Question question;
  question.model = {.name = "llama-2-70b",
                    .layer_count = 80,
                    .hidden_size = 8192,
                    .ffn_hidden_size = 28672,
                    .attention_head_count = 64,
                    .kv_head_count = 8,
                    .head_dim = 128,
                    .vocab_size = 32000,
                    .mlp = MlpKind::kSwiglu,
                    .norm = NormKind::kRmsnorm,
                    .tied_embeddings = false};
  question.workload = {
      .sequence_length = 4096, .global_batch_size = 1024, .framework_name = framework};
  question.cluster.name = "two pools";
  question.cluster.pools = {
      {.name = "a", .chip = "nvidia-a100-sxm4-80gb", .node_count = nodes, .devices_per_node = 8},
      {.name = "h", .chip = "nvidia-h100-sxm5-80gb", .node_count = nodes, .devices_per_node = 8}};
  question.cluster.inter_pool.bandwidth_per_node = BytesPerSecond{boundary * 1e9};
  return question;
}

int Report(int count, char** arguments) {
  const char* const framework = count > 1 ? arguments[1] : "flagscale";
  const int nodes = count > 2 ? std::atoi(arguments[2]) : 64;
  const double memory = count > 3 ? std::atof(arguments[3]) : 0;
  const double boundary = count > 4 ? std::atof(arguments[4]) : 25;
  const Knowledge knowledge = LoadKnowledge("").value();
  Problem problem = ResolveProblem(TwoPools(framework, nodes, boundary), knowledge).value();
  for (NodePool& pool : problem.cluster.pools) {
    if (memory > 0) pool.memory_capacity = GiB(memory);
  }
  const std::clock_t begin = std::clock();
  const MixedFound found = SearchMixed(problem, {}, {});
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::vector<SetFound> sets = found.sets;
  sets.insert(sets.end(), found.replicas.begin(), found.replicas.end());
  for (const SetFound& set : sets) {
    const double step = set.best.has_value() ? set.best->estimate.step_time.count() : 0;
    const double least = set.least_left_out.has_value() ? set.least_left_out->count() : step;
    fmt::print("{:.3f} s of processor time; step {:.4f} s, gap {:.4f}; {} plans, {} simulated\n",
               seconds, step, set.IsProven() ? 0.0 : step / least - 1, set.space_count,
               set.evaluated_count);
    if (set.best.has_value()) fmt::print("{}\n", MakePlanKey(set.best->plan).text);
  }
  return 0;
}

}  // namespace
}  // namespace meshwright

int main(int count, char** arguments) { return meshwright::Report(count, arguments); }
