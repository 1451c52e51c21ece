#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_request.h"
#include "tests/search_space/models.h"

namespace meshwright {

// Questions that are answered in milliseconds.

// Returns the program's own chips and frameworks.
inline const Knowledge& Known() {
  static const Knowledge* const knowledge = new Knowledge(LoadKnowledge("").value());
  return *knowledge;
}

// Resolves the rows that are not resolved yet, as the edge and the store do. Rows of one question
// share their problem.
inline std::vector<HistoryRow> ResolvedRows(std::vector<HistoryRow> rows) {
  QuestionResolver questions(Known());
  for (HistoryRow& row : rows) {
    if (row.resolved.problem != nullptr) continue;
    const std::shared_ptr<const Problem> problem = questions.Resolve(row.question).value();
    row.resolved.plan = ResolvePlan(row.plan, *problem, "plan").value().plan;
    row.resolved.problem = ProblemOfPlan(problem, row.resolved.plan);
  }
  return rows;
}

// Returns the rows as a store lends them.
inline SharedRows Shared(const std::vector<HistoryRow>& rows) {
  SharedRows shared;
  for (const HistoryRow& row : rows) shared.push_back(std::make_shared<const HistoryRow>(row));
  return shared;
}

inline HistoryRow ResolvedRow(HistoryRow row) { return ResolvedRows({std::move(row)}).front(); }

// A GPT of 4 layers: 4 x 12 x 1024^2 = 50 million parameters and an embedding of 33 million.
inline ModelSpec TinyModel() {
  return {.name = "tiny",
          .layer_count = 4,
          .hidden_size = 1024,
          .ffn_hidden_size = 4096,
          .attention_head_count = 16,
          .kv_head_count = 16,
          .head_dim = 64,
          .vocab_size = 32000,
          .mlp = MlpKind::kGelu,
          .norm = NormKind::kLayernorm,
          .tied_embeddings = true};
}

inline ModelSpec TinyExperts() {
  ModelSpec model = TinyModel();
  model.name = "tiny-experts";
  model.moe = MoeSpec{.expert_count = 4, .experts_per_token = 2, .expert_ffn_hidden_size = 1024};
  return model;
}

inline NodePoolRequest Nodes(int count, int devices) {
  return {.name = "a",
          .chip = "nvidia-a100-sxm4-80gb",
          .node_count = count,
          .devices_per_node = devices};
}

// Returns TinyModel on one node of four A100.
inline Question TinyQuestion() {
  return {.model = TinyModel(),
          .workload = {.sequence_length = 1024, .global_batch_size = 16},
          .cluster = {.name = "c", .pools = {Nodes(1, 4)}}};
}

// Returns Llama-2-7B on two nodes with 22 GiB a device: the fastest plans barely fit. It is
// answered in tenths of a second.
inline StudyRequest TightRequest() {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.model = Llama2_7b();
  request.question.workload = {.sequence_length = 4096, .global_batch_size = 128};
  request.question.workload.framework_name = "megatron-core";
  request.question.cluster.pools = {Nodes(2, 8)};
  request.question.cluster.pools.front().memory_capacity = GiB(22);
  return request;
}

// Returns plans of TinyQuestion without pipelines.
inline std::vector<ParallelPlan> TinyCandidates() {
  std::vector<ParallelPlan> plans;
  for (const int tensor : {1, 2, 4}) {
    for (const int micro_batch : {1, 2, 4}) {
      plans.push_back({.tensor_parallel = tensor,
                       .data_parallel = 4 / tensor,
                       .micro_batch_size = micro_batch,
                       .layers_per_stage = {4}});
    }
  }
  return plans;
}

inline Problem Resolved(const Question& question) {
  return ResolveProblem(question, Known()).value();
}

}  // namespace meshwright
