#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "pruner/pruner.h"
#include "server/tuner/calibrate.h"
#include "server/tuner/infeasible.h"
#include "tests/search_space/models.h"

namespace meshwright {

// The questions that all benchmarks ask; their names stand in the benchmarks' names.

struct BenchInput {
  ModelSpec model = {};
  int sequence_length = 0;
  int global_batch_size = 0;
  const char* chip = "";
  int node_count = 0;  // of eight devices
};

inline BenchInput Llama2_70bOn128A100() {
  return {Llama2_70b(), 4096, 1024, "nvidia-a100-sxm4-80gb", 16};
}
inline BenchInput Gpt3_175bOn512A100() {
  return {Gpt3_175b(), 2048, 1536, "nvidia-a100-sxm4-80gb", 64};
}
inline BenchInput Gpt3_175bOn4096A100() {
  return {Gpt3_175b(), 2048, 1536, "nvidia-a100-sxm4-80gb", 512};
}
inline BenchInput DeepseekV3On2048H100() {
  BenchInput input = {DeepseekV3(), 4096, 15360, "nvidia-h100-sxm5-80gb", 256};
  input.model.mtp_layer_count = 1;
  return input;
}

inline BenchInput Llama31_405bOn16384H100() {
  return {Llama31_405b(), 8192, 2048, "nvidia-h100-sxm5-80gb", 2048};
}

inline Problem ProblemOf(const BenchInput& input) {
  static const Knowledge knowledge = LoadKnowledge("").value();
  const Question question = {.model = input.model,
                             .workload = {.sequence_length = input.sequence_length,
                                          .global_batch_size = input.global_batch_size,
                                          .framework_name = "megatron-core"},
                             .cluster = {.name = "bench",
                                         .pools = {{.name = "a",
                                                    .chip = input.chip,
                                                    .node_count = input.node_count,
                                                    .devices_per_node = 8}}}};
  return ResolveProblem(question, knowledge).value();
}

// One way down the space with every dimension drawn; nothing when a rule rejects it on the way.
inline std::optional<ParallelPlan> DrawPlan(const Problem& problem, const SearchSpace& space,
                                            std::mt19937& random) {
  ParallelPlan plan = space.Root();
  for (int depth = 0; depth < kDimensionCount; ++depth) {
    const auto dimension = static_cast<Dimension>(depth);
    const std::vector<int> values = space.Values(dimension, plan);
    if (values.empty()) return std::nullopt;
    space.Set(dimension, values[random() % values.size()], plan);
    for (const PruneRule& rule : PruneRules()) {
      if (rule.check == nullptr) continue;
      if (rule.check(ViewOf(problem), plan, depth + 1).has_value()) return std::nullopt;
    }
  }
  return plan;
}

// Plans that the rules let pass, drawn from the whole space, in the order in which a search meets
// them. The same for every run.
inline std::vector<ParallelPlan> DrawPlans(const Problem& problem, std::size_t count) {
  const SearchSpace space = SpaceOf(problem);
  std::mt19937 random(1);
  std::vector<ParallelPlan> plans;
  while (plans.size() < count) {
    if (auto plan = DrawPlan(problem, space, random)) plans.push_back(*std::move(plan));
  }
  std::sort(plans.begin(), plans.end());
  return plans;
}

// The same benchmark over all inputs.
#define MESHWRIGHT_BENCHMARK(function)                                        \
  BENCHMARK_CAPTURE(function, llama2_70b_on_128_a100, Llama2_70bOn128A100()); \
  BENCHMARK_CAPTURE(function, gpt3_175b_on_4096_a100, Gpt3_175bOn4096A100()); \
  BENCHMARK_CAPTURE(function, deepseek_v3_on_2048_h100, DeepseekV3On2048H100())

}  // namespace meshwright
