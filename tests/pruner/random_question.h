#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <random>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {

inline void VaryRecomputation(std::mt19937& random, Question& question) {
  if (random() % 4 == 0) {
    question.workload.framework_facts.push_back({.name = "recomputes_by_stage", .value = "true"});
  } else if (random() % 6 == 0) {
    // There are up to 15 mixes per stage, and all combinations are listed.
    question.workload.framework_facts.push_back({.name = "mixes_recompute", .value = "true"});
    question.model.layer_count = std::min(question.model.layer_count, 4);
  } else if (random() % 12 == 0) {
    // The chunks have 4 or 2 layers, which stages share evenly and unevenly. Numbers of recomputed
    // layers by stage would be too many to list.
    question.model.layer_count = 8;
  }
}

// Returns a small question whose legal plans can be listed.
inline Question RandomQuestion(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  Question question = TinyQuestion();
  if (random() % 3 == 0) question.model = TinyExperts();
  ModelSpec& model = question.model;
  model.layer_count = pick({2, 3, 4, 6});
  model.hidden_size = pick({512, 1024, 4096});
  model.head_dim = model.hidden_size / 16;
  model.kv_head_count = pick({2, 4, 16});
  model.ffn_hidden_size = 4 * model.hidden_size;
  WorkloadRequest& workload = question.workload;
  workload.sequence_length = pick({512, 1024, 4096, 32768});
  workload.global_batch_size = pick({2, 4, 8, 12, 16});
  const char* const frameworks[] = {"generic", "megatron-core", "megatron-core", "torchtitan"};
  workload.framework_name = frameworks[random() % 4];
  if (random() % 4 == 0) {
    workload.framework_facts = {
        {.name = "schedules", .value = "1f1b zb_h1 dualpipe chimera interleaved_1f1b"}};
  }
  if (random() % 4 == 0) {
    workload.framework_facts.push_back(
        {.name = "rank_orders", .value = "tp-cp-ep-dp-pp tp-cp-ep-pp-dp"});
  }
  if (random() % 2 == 0) {
    workload.framework_facts.push_back({.name = "offloads_activations", .value = "true"});
    workload.framework_facts.push_back({.name = "activation_offload_needs_one_stage",
                                        .value = random() % 3 == 0 ? "true" : "false"});
  }
  const auto shape = random() % 6;
  const bool is_fp8 = random() % 5 == 0;
  VaryRecomputation(random, question);
  constexpr std::array<int, 2> kShapes[] = {{1, 4}, {1, 8}, {2, 4}, {3, 4}, {4, 4}, {2, 6}};
  question.cluster.pools = {Nodes(kShapes[shape][0], kShapes[shape][1])};
  if (is_fp8) {
    question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
    workload.precision = Precision::kFp8;
  }
  return question;
}

}  // namespace meshwright
