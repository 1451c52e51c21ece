#pragma once

#include <span>

#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns true if a key-value head would be on several ranks. Latent attention has none to split.
bool SplitsKeyHeads(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true for another schedule than the two of Megatron-Core.
bool HasOtherSchedule(const EstimatorProblem& problem, const ParallelPlan& plan);

bool SplitsContext(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if the context is split otherwise than by a ring.
bool SplitsContextWithoutRing(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if context parallelism exchanges heads.
bool ExchangesHeads(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if the experts are split otherwise than the other weights.
bool SplitsExpertsOtherwise(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if tensor parallelism splits the sequence too.
bool SplitsSequence(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if all chips are Intel's, for which Megatron-DeepSpeed has a fork.
bool IsOnGaudi(const EstimatorProblem& problem);

bool ShardsGradients(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns true if a part of the layers is recomputed, or a part of every layer.
bool RecomputesSomeLayers(const EstimatorProblem& problem, const ParallelPlan& plan);
bool RecomputesPartOfLayers(const EstimatorProblem& problem, const ParallelPlan& plan);

// Returns the ranks over which the states are sharded.
int ShardingRanks(const ParallelPlan& plan);

// The rules of groups of frameworks, one file each.
std::span<const LegalityRule> FlagScaleRules();  // beside those of the Megatron-Core that it runs
std::span<const LegalityRule>
MegatronRules();                               // Megatron-Core, Megatron-LM and what is built on it
std::span<const LegalityRule> PyTorchRules();  // torchtitan, FSDP and DeepSpeed
std::span<const LegalityRule> StageRules();    // for plans whose stages name their pools
std::span<const LegalityRule> OtherRules();    // nanotron, PaddleNLP, MaxText; and any, by facts

}  // namespace meshwright
