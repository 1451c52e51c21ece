#include <fmt/format.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/text/flag_list.h"

namespace meshwright {
namespace {

// Adds the recipe's flags. --fp8-recipe has no rowwise. Block-scaled recipes keep e4m3 in both
// passes, as the formats of TransformerEngine's recipes do; with per-tensor scaling, gradients need
// e5m2's range ("hybrid").
void AddFp8(Fp8Recipe recipe, FlagList& flags) {
  switch (recipe) {
    case Fp8Recipe::kTensorwise:
    case Fp8Recipe::kDelayed:
      flags.Add("--fp8-format", "hybrid");
      break;
    case Fp8Recipe::kBlockwise:
    case Fp8Recipe::kMxfp8:
      flags.Add("--fp8-format", "e4m3");
      break;
    case Fp8Recipe::kRowwise:
      flags.Refuse("workload.fp8_recipe",
                   "rowwise; Megatron-Core has tensorwise, delayed, blockwise and mxfp8");
      return;
  }
  flags.Add("--fp8-recipe", Word(recipe));
}

void AddPrecision(const Workload& workload, FlagList& flags) {
  switch (workload.precision) {
    case Precision::kBf16:
      flags.Add("--bf16");
      return;
    case Precision::kFp16:
      flags.Add("--fp16");
      return;
    case Precision::kFp8:
      flags.Add("--bf16");
      AddFp8(workload.fp8_recipe, flags);
      return;
    case Precision::kFp32:
      return;  // has no flag
  }
}

void AddGradientDtype(const Workload& workload, FlagList& flags) {
  const bool is_bf16 =
      workload.precision == Precision::kBf16 || workload.precision == Precision::kFp8;
  const bool is_fp16 = workload.precision == Precision::kFp16;
  switch (workload.gradient_dtype) {
    case GradientDtype::kFp32:
      if (is_bf16 || is_fp16) flags.Add("--accumulate-allreduce-grads-in-fp32");
      return;
    case GradientDtype::kBf16:
      if (is_bf16) {
        flags.Add("--grad-reduce-in-bf16");
        return;
      }
      break;
    case GradientDtype::kFp16:
      if (is_fp16) return;  // the default of --fp16
      break;
  }
  flags.Refuse("workload.gradient_dtype",
               fmt::format("{} with {}; Megatron-Core reduces in fp32 or in the parameters' type",
                           Word(workload.gradient_dtype), Word(workload.precision)));
}

}  // namespace

void AddMegatronPrecisionFlags(const Workload& workload, FlagList& flags) {
  AddPrecision(workload, flags);
  AddGradientDtype(workload, flags);
}

void AddMegatronAttentionFlags(const Workload& workload, FlagList& flags) {
  const AttentionKernel kernel = workload.attention_kernel;
  switch (kernel) {
    case AttentionKernel::kUnfused:
      flags.Add("--attention-backend", "unfused");
      return;
    case AttentionKernel::kFusedSoftmax:
      flags.Add("--transformer-impl", "local");  // its scaled masked softmax kernel
      return;
    case AttentionKernel::kFlash2:
    case AttentionKernel::kFlash3:
      // TransformerEngine uses the newest installed flash-attn that the device supports.
      flags.Add("--attention-backend", "flash");
      return;
    case AttentionKernel::kCudnn:
      flags.Add("--attention-backend", "fused");
      return;
    case AttentionKernel::kFlash1:
    case AttentionKernel::kVendor:
      flags.Refuse("workload.attention_kernel",
                   fmt::format("{}; Megatron-Core has unfused, fused_softmax, flash2, flash3 and "
                               "cudnn",
                               Word(kernel)));
      return;
  }
}

void AddMegatronOptimizerFlags(const Workload& workload, FlagList& flags) {
  const Optimizer optimizer = workload.optimizer;
  if (optimizer == Optimizer::kAdam8bit) {
    flags.Refuse("workload.optimizer", "adam8bit; Megatron-Core has adam and sgd");
    return;
  }
  flags.Add("--optimizer", Word(optimizer));
}

void AddMegatronFusionFlags(const Workload& workload, FlagList& flags) {
  if (workload.norm_kernel == KernelFusion::kUnfused) {
    flags.Refuse("workload.norm_kernel",
                 "unfused; the norms of Megatron-Core's layers are fused and no flag changes it");
  }
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    flags.Add("--cross-entropy-loss-fusion");
  }
  // Both default to 0.1.
  flags.Add("--attention-dropout", workload.dropout_ratio);
  flags.Add("--hidden-dropout", workload.dropout_ratio);
}

}  // namespace meshwright
