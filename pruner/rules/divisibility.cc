#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/sharding.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

std::optional<Rejection> Reject(std::string_view reason, double value, double limit) {
  return Rejection{.rule = kDivisibilityRule, .reason = reason, .value = value, .limit = limit};
}

std::optional<Rejection> CheckTensor(const ModelSpec& model, int t) {
  if (model.attention_head_count % t != 0) {
    return Reject("tensor_parallel does not divide the attention heads", t,
                  model.attention_head_count);
  }
  if (model.kv_head_count % t != 0 && t % model.kv_head_count != 0) {
    return Reject("tensor_parallel and the key-value heads do not divide one another", t,
                  model.kv_head_count);
  }
  if (model.ffn_hidden_size % t != 0) {
    return Reject("tensor_parallel does not divide the feed-forward width", t,
                  model.ffn_hidden_size);
  }
  return std::nullopt;
}

// Checks the heads of scans, and the sizes that single layers have of their own; 0 is the model's.
std::optional<Rejection> CheckLayers(const ModelSpec& model, int t) {
  if (model.state_space.has_value() && model.state_space->head_count % t != 0) {
    return Reject("tensor_parallel does not divide the heads of the state space", t,
                  model.state_space->head_count);
  }
  if (model.linear_attention.has_value()) {
    for (const int heads :
         {model.linear_attention->key_head_count, model.linear_attention->value_head_count}) {
      if (heads % t != 0) {
        return Reject("tensor_parallel does not divide the heads of linear attention", t, heads);
      }
    }
  }
  for (const LayerRun& run : model.layers) {
    const LayerKind& kind = run.kind;
    if (kind.attention_head_count % t != 0) {
      return Reject("tensor_parallel does not divide the attention heads of a layer", t,
                    kind.attention_head_count);
    }
    if (kind.kv_head_count > 0 && kind.kv_head_count % t != 0 && t % kind.kv_head_count != 0) {
      return Reject("tensor_parallel and the key-value heads of a layer do not divide one another",
                    t, kind.kv_head_count);
    }
    if (kind.ffn_hidden_size % t != 0) {
      return Reject("tensor_parallel does not divide the feed-forward width of a layer", t,
                    kind.ffn_hidden_size);
    }
  }
  return std::nullopt;
}

std::optional<Rejection> CheckContext(const EstimatorProblem& problem, const ParallelPlan& plan) {
  const int c = plan.context_parallel;
  if (c == 1) return std::nullopt;
  // Each rank takes two slices, one early and one late, so that causal work is balanced.
  if (problem.workload.sequence_length % (2 * c) != 0) {
    return Reject("twice context_parallel does not divide the sequence", 2 * c,
                  problem.workload.sequence_length);
  }
  return std::nullopt;
}

std::optional<Rejection> CheckHeads(const EstimatorProblem& problem, const ParallelPlan& plan) {
  const int c = plan.context_parallel;
  const int heads = ExchangedHeads(problem.model, plan.tensor_parallel);
  if (plan.context_parallel_kind == ContextParallelKind::kUlysses && heads % c != 0) {
    return Reject(
        "context_parallel does not divide the attention and key-value heads of a tensor-parallel "
        "rank",
        c, heads);
  }
  return std::nullopt;
}

std::optional<Rejection> CheckExpertTensor(const ModelSpec& model, const ParallelPlan& plan) {
  if (!model.moe.has_value()) return std::nullopt;
  if (model.moe->expert_ffn_hidden_size % plan.expert_tensor_parallel != 0) {
    return Reject("expert_tensor_parallel does not divide the expert width",
                  plan.expert_tensor_parallel, model.moe->expert_ffn_hidden_size);
  }
  return std::nullopt;
}

std::optional<Rejection> CheckSequence(const EstimatorProblem& problem, const ParallelPlan& plan) {
  if (!plan.sequence_parallel) return std::nullopt;
  const int t = plan.tensor_parallel;
  if (t == 1) return Reject("sequence_parallel needs tensor_parallel > 1", t, 2);
  const int tokens = problem.workload.sequence_length / plan.context_parallel;
  if (tokens % t != 0) {
    return Reject("tensor_parallel does not divide the tokens of a rank", t, tokens);
  }
  return std::nullopt;
}

std::optional<Rejection> CheckSchedule(const EstimatorProblem& problem, const ParallelPlan& plan) {
  const int p = plan.pipeline_parallel;
  const int m = MicroBatchCount(plan, problem.workload.global_batch_size);
  // The interleaved schedule runs micro-batches in groups of pipeline_parallel.
  if (plan.schedule == Schedule::kInterleaved1f1b && m % p != 0) {
    return Reject("pipeline_parallel does not divide the micro-batches, as interleaving needs", p,
                  m);
  }
  if (plan.schedule == Schedule::kChimera && m > p) {
    return Reject("chimera is supported for at most as many micro-batches as stages", m, p);
  }
  if (LayoutOf(plan.schedule, p, 1).directions() == 2 && (p % 2 != 0 || m % 2 != 0)) {
    return Reject("a bidirectional schedule needs even numbers of stages and micro-batches", p, m);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rejection> CheckDivisibility(const PruneContext& context, const ParallelPlan& plan,
                                           int depth) {
  const EstimatorProblem& problem = context.problem;
  if (JustSet(Dimension::kTensorParallel, depth)) {
    if (auto rejection = CheckTensor(problem.model, plan.tensor_parallel)) return rejection;
    return CheckLayers(problem.model, plan.tensor_parallel);
  }
  if (JustSet(Dimension::kContextParallel, depth)) return CheckContext(problem, plan);
  if (JustSet(Dimension::kContextParallelKind, depth)) return CheckHeads(problem, plan);
  if (JustSet(Dimension::kPipelineParallel, depth) &&
      plan.pipeline_parallel > problem.model.layer_count) {
    return Reject("more stages than layers", plan.pipeline_parallel, problem.model.layer_count);
  }
  if (JustSet(Dimension::kExpertTensorParallel, depth)) {
    return CheckExpertTensor(problem.model, plan);
  }
  if (JustSet(Dimension::kSequenceParallel, depth)) return CheckSequence(problem, plan);
  if (JustSet(Dimension::kSchedule, depth)) return CheckSchedule(problem, plan);
  return std::nullopt;
}

}  // namespace meshwright
