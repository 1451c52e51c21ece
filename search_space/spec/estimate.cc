#include "search_space/spec/estimate.h"

#include <cstdlib>

namespace meshwright {

// Enumerators count from 0.
static_assert(kTimeCauseCount == static_cast<std::size_t>(TimeCause::kFixed) + 1);
static_assert(kMemoryKindCount == static_cast<std::size_t>(MemoryKind::kFrameworkCache) + 1);

std::string_view Word(TimeCause cause) {
  switch (cause) {
    case TimeCause::kMatmul:
      return "matmul";
    case TimeCause::kAttention:
      return "attention";
    case TimeCause::kMemoryBound:
      return "memory_bound";
    case TimeCause::kVocabulary:
      return "vocabulary";
    case TimeCause::kRecompute:
      return "recompute";
    case TimeCause::kActivationOffload:
      return "activation_offload";
    case TimeCause::kHost:
      return "host";
    case TimeCause::kTensorParallel:
      return "tensor_parallel";
    case TimeCause::kContextParallel:
      return "context_parallel";
    case TimeCause::kExpertParallel:
      return "expert_parallel";
    case TimeCause::kPipelineP2p:
      return "pipeline_p2p";
    case TimeCause::kPipelineBubble:
      return "pipeline_bubble";
    case TimeCause::kDataParallel:
      return "data_parallel";
    case TimeCause::kOptimizer:
      return "optimizer";
    case TimeCause::kFixed:
      return "fixed";
  }
  std::abort();
}

std::string_view Word(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kWeights:
      return "weights";
    case MemoryKind::kGradients:
      return "gradients";
    case MemoryKind::kOptimizerStates:
      return "optimizer_states";
    case MemoryKind::kActivations:
      return "activations";
    case MemoryKind::kTransient:
      return "transient";
    case MemoryKind::kFrameworkCache:
      return "framework_cache";
  }
  std::abort();
}

}  // namespace meshwright
