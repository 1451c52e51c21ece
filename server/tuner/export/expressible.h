#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

RecomputeForm RecomputeFormOf(const Problem& problem, const ParallelPlan& plan);

// The ranks of data parallelism, divided into groups that shard and groups that replicate.
struct DataRanks {
  int replicas = 1;
  int shards = 1;
};

// Returns the ranks under FSDP, which shards over data and context parallelism; nullopt if the
// plan's sharding groups do not consist of whole groups of context parallelism.
std::optional<DataRanks> DataRanksOf(const ParallelPlan& plan);

// The parts of plans, workloads and models that a framework can be configured with, as data. A list
// has every value that is possible.
struct Expressible {
  std::string_view framework = {};  // as it calls itself
  // Fields of the plan.
  bool tensor_parallel = true;
  bool sequence_parallel = true;         // with tensor parallelism
  bool needs_sequence_parallel = false;  // tensor parallelism always splits the sequence too
  bool pipeline_parallel = true;
  std::span<const Schedule> schedules = {};
  bool layers_per_stage = false;  // splits other than the framework's own
  std::span<const ContextParallelKind> context_parallel_kinds = {};
  bool expert_parallel = false;
  bool expert_tensor_parallel = false;
  std::span<const int> zero_stages = {};
  bool zero_groups = false;
  bool pipeline_inside = false;  // rank order with pipelines inside of data parallelism
  bool optimizer_offload = false;
  bool activation_offload = false;
  std::span<const RecomputeForm> recompute = {};
  // Fields of the workload.
  std::span<const Precision> precisions = {};
  std::span<const Fp8Recipe> fp8_recipes = {};
  std::span<const GradientDtype> gradient_dtypes = {};
  std::span<const Optimizer> optimizers = {};
  std::span<const AttentionKernel> attention_kernels = {};
  bool tensor_overlap = false;
  bool always_overlaps_sharding = false;  // overlaps collectives of sharded weights and gradients
  bool dropout = false;
  // Fields of the model.
  std::span<const MlpKind> mlps = {};
  bool layer_norm = false;  // beside RMSNorm
  bool biases = false;      // of all linear layers or of none, whichever norm the model has
  bool experts = false;
  bool gathers_tokens = false;  // the allgather dispatcher beside alltoall
  bool latent_attention = false;
  bool sliding_window = false;
  bool multi_token_prediction = false;
  // The script builds whatever the model's own configuration describes: layers of several kinds,
  // sparse attention.
  bool any_layers = false;
};

// Refuses every field that is outside of `expressible`. Exporters check what depends on several
// fields.
void RefuseInexpressible(const Problem& problem, const ParallelPlan& plan,
                         const Expressible& expressible, Refusals& refusals);

}  // namespace meshwright
