#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/legality/legality.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/megatron_layers.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

// Returns true for 0.12 and 0.13, which call Megatron FSDP --use-custom-fsdp.
bool HasCustomFsdp(const std::string& version) {
  return version.starts_with("0.12") || version.starts_with("0.13");
}

void AddFullSharding(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const bool is_custom =
      problem.profile.name == "megatron-core" && HasCustomFsdp(problem.workload.framework_version);
  flags.Add("--use-distributed-optimizer");
  flags.Add(is_custom ? "--use-custom-fsdp" : "--use-megatron-fsdp");
  flags.Add("--data-parallel-sharding-strategy",
            plan.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
  // Both names of it require this (docs/source/api-guide/custom_fsdp.md, Megatron-FSDP User Guide).
  flags.Add("--no-gradient-accumulation-fusion");
  // According to validate_args, Megatron FSDP writes no other format. The custom FSDP of older
  // versions does not know this format.
  if (!is_custom) flags.Add("--ckpt-format", "fsdp_dtensor");
}

// The release with --moe-flex-dispatcher-backend.
constexpr std::string_view kFirstWithBackends = "0.15";

// Returns true if the question is about a release of Megatron-Core before this one. Frameworks
// built on it have versions of their own.
bool IsCoreBefore(const Problem& problem, std::string_view version) {
  return problem.profile.name == "megatron-core" &&
         IsOlder(problem.workload.framework_version, version);
}

// Adds the dispatcher. The default gathers all tokens on all ranks.
void AddDispatcher(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  constexpr std::string_view kType = "--moe-token-dispatcher-type";
  const MoeTraining& moe = problem.workload.moe;
  const bool has_backends = !IsCoreBefore(problem, kFirstWithBackends);
  const bool is_divided = plan.expert_parallel * plan.expert_tensor_parallel > 1;
  const bool is_flexible =
      moe.dispatcher == MoeDispatcher::kDeepep || moe.dispatcher == MoeDispatcher::kHybridep;
  if (is_flexible && is_divided) {
    flags.Add(kType, "flex");
    if (has_backends) {
      flags.Add("--moe-flex-dispatcher-backend", Word(moe.dispatcher));
    } else if (moe.dispatcher == MoeDispatcher::kDeepep) {
      flags.Add("--moe-enable-deepep");
    } else {
      flags.Refuse("workload.moe.dispatcher",
                   fmt::format("hybridep; Megatron-Core has it from {} on", kFirstWithBackends));
    }
  } else {
    flags.Add(kType, moe.dispatcher == MoeDispatcher::kAllgather ? "allgather" : "alltoall");
  }
  if (moe.capacity_factor > 0) flags.Add("--moe-expert-capacity-factor", moe.capacity_factor);
  if (moe.dispatch_dtype == DispatchDtype::kFp8 && plan.expert_parallel > 1) {
    flags.Refuse("workload.moe.dispatch_dtype", "fp8; Megatron-Core has no flag for it");
  }
}

// Returns why Megatron-Core cannot hide the exchange behind another micro-batch; empty if it can
// (megatron/training/arguments.py).
std::string_view ExchangeObstacle(const Problem& problem, const ParallelPlan& plan) {
  if (IsCoreBefore(problem, "0.14")) return "has it from 0.14 on";
  if (plan.pipeline_parallel > 1 && plan.virtual_pipeline == 1) {
    return "needs virtual stages in a pipeline for it";
  }
  if (plan.recompute.granularity == RecomputeGranularity::kFull) {
    return "does not have it with full recomputation";
  }
  if (problem.workload.moe.dispatcher == MoeDispatcher::kAllgather) {
    return "does not have it with the allgather dispatcher";
  }
  return problem.workload.overlap.shared_expert ? "has either it or shared_expert" : "";
}

void AddExchangeOverlap(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (plan.expert_parallel == 1) return;
  const Overlap& overlap = problem.workload.overlap;
  if (overlap.expert_parallel) {
    flags.Add("--overlap-moe-expert-parallel-comm");
    const std::string_view obstacle = ExchangeObstacle(problem, plan);
    if (!obstacle.empty()) {
      flags.Refuse("workload.overlap.expert_parallel",
                   fmt::format("true; Megatron-Core {}", obstacle));
    }
  }
  if (overlap.shared_expert && problem.model.moe->shared_expert_ffn_hidden_size > 0) {
    flags.Add("--moe-shared-expert-overlap");
    if (problem.workload.moe.dispatcher != MoeDispatcher::kAlltoall) {
      flags.Refuse("workload.overlap.shared_expert",
                   fmt::format("true with {}; Megatron-Core has it with alltoall",
                               Word(problem.workload.moe.dispatcher)));
    }
  }
}

// Returns the ranks that exchange heads. They are those of a node, and the same on all pools.
int ExchangeRanks(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  std::optional<int> common;
  for (const NodePool& pool : problem.cluster.pools) {
    const bool is_used =
        plan.stages.empty() ||
        std::ranges::find(plan.stages, pool.name, &StagePlan::pool) != plan.stages.end();
    if (!is_used) continue;
    const int own = HybridExchangeRanks(plan.context_parallel, plan.tensor_parallel,
                                        ExchangedHeads(problem.model, plan.tensor_parallel),
                                        ScaleUpDeviceCount(pool));
    if (common.value_or(own) != own) {
      flags.Refuse(
          "plan.context_parallel_kind",
          fmt::format("{} with {} ranks that exchange heads on one pool and {} on another; "
                      "Megatron-Core has one size for both",
                      Word(plan.context_parallel_kind), *common, own));
    }
    common = common.value_or(own);
  }
  return common.value_or(1);
}

}  // namespace

void AddMegatronTensorFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--tensor-model-parallel-size", plan.tensor_parallel);
  // validate_args disables it if there is nothing to split.
  const bool is_sequence_parallel = plan.sequence_parallel && plan.tensor_parallel > 1;
  if (is_sequence_parallel) flags.Add("--sequence-parallel");
  if (plan.tensor_parallel == 1 || !problem.workload.overlap.tensor_parallel) return;
  if (is_sequence_parallel) {
    flags.Add("--tp-comm-overlap");
  } else {
    flags.Refuse("workload.overlap.tensor_parallel",
                 "true; Megatron-Core overlaps it with sequence parallelism only");
  }
}

void AddMegatronContextFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--context-parallel-size", plan.context_parallel);
  if (plan.context_parallel == 1) return;
  switch (plan.context_parallel_kind) {
    case ContextParallelKind::kRing:
      flags.Add("--cp-comm-type", "p2p");
      break;
    case ContextParallelKind::kUlysses:
      flags.Add("--cp-comm-type", "a2a");
      break;
    case ContextParallelKind::kAllGather:
      flags.Add("--cp-comm-type", "allgather");
      break;
    case ContextParallelKind::kHybrid: {
      const int exchange = ExchangeRanks(problem, plan, flags);
      flags.Add("--cp-comm-type", "a2a+p2p");
      flags.Add("--hierarchical-context-parallel-sizes",
                fmt::format("{} {}", exchange, plan.context_parallel / exchange));
      break;
    }
  }
  const int parts = 2 * plan.context_parallel;
  if (problem.workload.sequence_length % parts != 0) {
    flags.Refuse("plan.context_parallel",
                 fmt::format("{}; Megatron-Core wants sequence_length = {} to be a multiple of {}",
                             plan.context_parallel, problem.workload.sequence_length, parts));
  }
}

void AddMegatronExpertFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (!problem.model.moe.has_value()) return;
  flags.Add("--expert-model-parallel-size", plan.expert_parallel);
  flags.Add("--expert-tensor-parallel-size", plan.expert_tensor_parallel);
  const int block = plan.tensor_parallel * plan.context_parallel;
  const int experts = plan.expert_parallel * plan.expert_tensor_parallel;
  if (plan.rank_order == RankOrder::kTpCpEpPpDp && plan.pipeline_parallel > 1 && experts != block) {
    flags.Refuse("plan.rank_order",
                 fmt::format("{} with expert x expert_tensor = {}; Megatron-Core needs tensor x "
                             "context = {} then",
                             Word(plan.rank_order), experts, block));
  }
  AddDispatcher(problem, plan, flags);
  AddExchangeOverlap(problem, plan, flags);
  if (plan.expert_parallel > 1 && problem.workload.precision == Precision::kFp16) {
    flags.Refuse("plan.expert_parallel",
                 fmt::format("{} with fp16; Megatron-Core has no expert parallelism in fp16",
                             plan.expert_parallel));
  }
}

void AddMegatronShardingFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  const Overlap& overlap = problem.workload.overlap;
  if (plan.zero_stage == 1) flags.Add("--use-distributed-optimizer");
  if (plan.zero_stage >= 2) AddFullSharding(problem, plan, flags);
  const int replicas = plan.data_parallel * plan.context_parallel;
  if (plan.zero_stage >= 1 && plan.zero_group_size > 0 && plan.zero_group_size != replicas) {
    if (replicas % plan.zero_group_size == 0) {
      flags.Add("--num-distributed-optimizer-instances", replicas / plan.zero_group_size);
    } else {
      flags.Refuse("plan.zero_group_size",
                   fmt::format("{}; must divide data x context parallel = {}", plan.zero_group_size,
                               replicas));
    }
  }
  if (overlap.gradient_reduce) flags.Add("--overlap-grad-reduce");
  if (overlap.parameter_gather && plan.zero_stage >= 1) {  // otherwise there is nothing to gather
    flags.Add("--overlap-param-gather");
    if (!overlap.gradient_reduce) {
      flags.Refuse("workload.overlap.parameter_gather",
                   "true without gradient_reduce; Megatron-Core overlaps both or only the "
                   "reduction");
    }
  }
  if (problem.workload.precision == Precision::kFp8 && problem.profile.fp8_weights_are_kept &&
      plan.zero_stage >= 1) {
    flags.Add("--fp8-param-gather");
    if (problem.workload.fp8_recipe == Fp8Recipe::kMxfp8 && plan.zero_stage == 1) {
      // Without it the gathered 16-bit weights have a buffer of their own. Megatron FSDP has no
      // such flag.
      flags.Add("--reuse-grad-buf-for-mxfp8-param-ag");
    }
  }
  if (plan.whole_weights_ratio > 0) {
    flags.Refuse("plan.whole_weights_ratio",
                 fmt::format("{}; Megatron-Core shards the weights of all layers or of none",
                             plan.whole_weights_ratio));
  }
  if (plan.optimizer_offload_ratio > 0) {
    flags.Add("--optimizer-cpu-offload");
    flags.Add("--optimizer-offload-fraction", plan.optimizer_offload_ratio);
    flags.Add("--use-precision-aware-optimizer");  // offloading requires it
  }
}

// Adds offload by layers. Offload by modules (--fine-grained-activation-offloading) is a different
// feature.
void AddMegatronOffloadFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (plan.activation_offload_ratio == 0) return;
  if (plan.pipeline_parallel > 1 || plan.recompute.granularity != RecomputeGranularity::kNone) {
    flags.Refuse("plan.activation_offload_ratio",
                 fmt::format("{} with {} pipeline stages and recompute {}; Megatron-Core offloads "
                             "layers of one stage without recomputation",
                             plan.activation_offload_ratio, plan.pipeline_parallel,
                             Word(plan.recompute.granularity)));
    return;
  }
  const int layers = OffloadedLayers(plan.activation_offload_ratio, problem.model.layer_count);
  if (layers > 0) flags.Add("--cpu-offloading-num-layers", layers);
}

void AddMegatronBatchFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  flags.Add("--micro-batch-size", plan.micro_batch_size);
  flags.Add("--global-batch-size", problem.workload.global_batch_size);
}

void AddMegatronLayoutFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  AddMegatronTensorFlags(problem, plan, flags);
  AddMegatronPipelineFlags(problem, plan, flags);
  AddMegatronContextFlags(problem, plan, flags);
  AddMegatronExpertFlags(problem, plan, flags);
  AddMegatronBatchFlags(problem, plan, flags);
  AddMegatronShardingFlags(problem, plan, flags);
}

void AddMegatronJobFlags(const Problem& problem, FlagList& flags) {
  RefuseLaterParts(problem, flags);
  AddMegatronModelFlags(problem.model, problem.workload, flags);
  AddMegatronRopeFlags(problem.model, flags);
  AddMegatronSequenceFlags(problem.workload, flags);
  AddMegatronPrecisionFlags(problem.workload, flags);
  AddMegatronOptimizerFlags(problem.workload, flags);
  AddMegatronAttentionFlags(problem.workload, flags);
  AddMegatronFusionFlags(problem.workload, flags);
}

LaunchConfig ExportMegatronCore(const Problem& problem, const ParallelPlan& plan,
                                Refusals& refusals) {
  FlagList flags(refusals);
  AddMegatronLayoutFlags(problem, plan, flags);
  AddMegatronRecomputeFlags(problem, plan, flags);
  AddMegatronOffloadFlags(problem, plan, flags);
  AddMegatronJobFlags(problem, flags);
  return {.text = flags.Text(),
          .versions = IsCoreBefore(problem, kFirstWithBackends) ? "0.12 to 0.14" : "0.15",
          .command = MegatronEnvironment(plan) +
                     TorchrunCommand(JobSizeOf(problem, plan), "pretrain_gpt.py"),
          .left_out = MegatronLeftOut(problem.model)};
}

}  // namespace meshwright
