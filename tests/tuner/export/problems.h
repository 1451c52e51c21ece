#pragma once

#include <string>

#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"

namespace meshwright {

// Llama 2 70B for a framework on 16 nodes of 8 devices.
inline Problem Llama70b(const std::string& framework = "megatron-core",
                        const std::string& version = "0.14") {
  Problem problem;
  problem.model = Llama2_70b();
  problem.workload = {.sequence_length = 4096,
                      .global_batch_size = 1024,
                      .overlap = {.gradient_reduce = true, .parameter_gather = true},
                      .framework_name = framework,
                      .framework_version = version};
  problem.cluster.pools = {{.node_count = 16, .devices_per_node = 8}};
  problem.profile.name = framework;
  return problem;
}

// DeepSeek-V3 with its layer for multi-token prediction.
inline Problem DeepseekProblem() {
  Problem problem = Llama70b();
  problem.model = DeepseekV3();
  problem.model.mtp_layer_count = 1;
  return problem;
}

// 4 x 4 x 8 = 128 devices.
inline ParallelPlan DensePlan() {
  return {.tensor_parallel = 4,
          .sequence_parallel = true,
          .pipeline_parallel = 4,
          .data_parallel = 8,
          .zero_stage = 1};
}

// 4 x 32 = 128 devices.
inline ParallelPlan ShardedPlan() {
  return {.tensor_parallel = 4, .sequence_parallel = true, .data_parallel = 32, .zero_stage = 3};
}

// Mixtral 8x7B instead of Llama.
inline Problem ExpertProblem(const std::string& framework) {
  Problem problem = Llama70b(framework, "");
  problem.model = Mixtral_8x7b();
  return problem;
}

// Returns the text of an export, or the error.
inline std::string Exported(const std::string& framework, const Problem& problem,
                            const ParallelPlan& plan) {
  const auto config = ExportPlan(framework, problem, plan);
  return config.ok() ? config->text : config.status().ToString();
}

}  // namespace meshwright
