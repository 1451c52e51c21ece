#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// No dispatcher: the backend says which.
constexpr std::pair<std::string_view, std::optional<MoeDispatcher>> kDispatcherWords[] = {
    {"allgather", MoeDispatcher::kAllgather},
    {"alltoall", MoeDispatcher::kAlltoall},
    {"alltoall_seq", MoeDispatcher::kAlltoall},
    {"flex", std::nullopt}};
constexpr std::pair<std::string_view, MoeDispatcher> kBackendsOfExperts[] = {
    {"deepep", MoeDispatcher::kDeepep}, {"hybridep", MoeDispatcher::kHybridep}};
constexpr std::pair<std::string_view, Fp8Recipe> kRecipeWords[] = {
    {"tensorwise", Fp8Recipe::kTensorwise},
    {"delayed", Fp8Recipe::kDelayed},
    {"blockwise", Fp8Recipe::kBlockwise},
    {"mxfp8", Fp8Recipe::kMxfp8}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {{"adam", Optimizer::kAdam},
                                                                      {"sgd", Optimizer::kSgd}};
// "auto" leaves the choice to TransformerEngine.
constexpr std::pair<std::string_view, std::optional<AttentionKernel>> kBackendWords[] = {
    {"flash", AttentionKernel::kFlash2},
    {"fused", AttentionKernel::kCudnn},
    {"unfused", AttentionKernel::kUnfused},
    {"local", AttentionKernel::kFusedSoftmax},
    {"auto", std::nullopt}};

void ReadPrecision(SettingReader& settings, WorkloadRequest& workload) {
  const bool is_bf16 = settings.Switch("bf16");
  const bool is_fp16 = settings.Switch("fp16");
  if (is_bf16 && is_fp16) settings.Refuse("bf16", "together with fp16; one of them");
  workload.precision = is_bf16 ? Precision::kBf16 : (is_fp16 ? Precision::kFp16 : Precision::kFp32);
  const bool is_fp8 = settings.Text("fp8-format").has_value() || settings.Text("fp8").has_value() ||
                      settings.Switch("fp8-hybrid") || settings.Switch("fp8-e4m3");
  const auto recipe = settings.Choice<Fp8Recipe>("fp8-recipe", kRecipeWords);
  if (is_fp8) {
    workload.precision = Precision::kFp8;
    workload.fp8_recipe = recipe.value_or(Fp8Recipe::kDelayed);  // Megatron's default
  }
  const bool is_fp32 = settings.Switch("accumulate-allreduce-grads-in-fp32");
  const bool reduces_in_bf16 = settings.Switch("grad-reduce-in-bf16");
  // With --bf16 validate_args accumulates in fp32 unless it is told to reduce in bf16.
  workload.gradient_dtype = GradientDtype::kFp32;
  if (is_fp16 && !is_fp32) workload.gradient_dtype = GradientDtype::kFp16;
  if (is_bf16 && reduces_in_bf16) workload.gradient_dtype = GradientDtype::kBf16;
}

void ReadAttention(SettingReader& settings, WorkloadRequest& workload) {
  const auto backend =
      settings.Choice<std::optional<AttentionKernel>>("attention-backend", kBackendWords);
  const bool is_flash = settings.Switch("use-flash-attn") || settings.Switch("use-flash-attn-v2");
  const bool is_flash1 = settings.Switch("use-flash-attn-v1");
  const bool is_local = settings.Text("transformer-impl").value_or("") == "local";
  const bool is_unfused = settings.Switch("no-masked-softmax-fusion") ||
                          settings.Bool("masked-softmax-fusion") == false;
  if (backend.has_value()) {
    workload.attention_kernel = *backend;
  } else if (is_flash1) {
    workload.attention_kernel = AttentionKernel::kFlash1;
  } else if (is_flash) {
    workload.attention_kernel = AttentionKernel::kFlash2;
  } else if (is_local) {
    workload.attention_kernel =
        is_unfused ? AttentionKernel::kUnfused : AttentionKernel::kFusedSoftmax;
  }
}

void ReadDropout(SettingReader& settings, WorkloadRequest& workload) {
  constexpr double kUsual = 0.1;  // of both
  const double attention = settings.Number("attention-dropout").value_or(kUsual);
  const double hidden = settings.Number("hidden-dropout").value_or(kUsual);
  workload.dropout_ratio = hidden;
  if (attention != hidden) {
    settings.Note(fmt::format("attention-dropout = {} and hidden-dropout = {}; read as {}",
                              attention, hidden, hidden));
  }
}

void ReadOverlap(SettingReader& settings, WorkloadRequest& workload) {
  OverlapRequest& overlap = workload.overlap;
  overlap.gradient_reduce = settings.Switch("overlap-grad-reduce");
  overlap.parameter_gather = settings.Switch("overlap-param-gather");
  overlap.tensor_parallel = settings.Switch("tp-comm-overlap") || settings.Switch("use-ascend-mc2");
  const bool is_off =
      settings.Switch("no-overlap-p2p-communication") || settings.Bool("overlap-p2p-comm") == false;
  overlap.pipeline_p2p = !is_off;
}

// Reads how tokens come to their experts. What a script leaves out is the profile's.
void ReadExchange(SettingReader& settings, WorkloadRequest& workload) {
  const bool is_deepep = settings.Switch("moe-enable-deepep");
  const auto backend =
      settings.Choice<MoeDispatcher>("moe-flex-dispatcher-backend", kBackendsOfExperts);
  const auto dispatcher =
      settings.Choice<std::optional<MoeDispatcher>>("moe-token-dispatcher-type", kDispatcherWords);
  if (dispatcher.has_value()) {
    workload.moe.dispatcher = *dispatcher;
    // The flexible dispatcher's usual backend.
    if (!dispatcher->has_value())
      workload.moe.dispatcher = backend.value_or(MoeDispatcher::kDeepep);
  } else if (is_deepep) {
    workload.moe.dispatcher = MoeDispatcher::kDeepep;
  }
  workload.moe.capacity_factor = settings.Number("moe-expert-capacity-factor");
  if (settings.Has("overlap-moe-expert-parallel-comm")) {
    workload.overlap.expert_parallel = settings.Switch("overlap-moe-expert-parallel-comm");
  }
  if (settings.Has("moe-shared-expert-overlap")) {
    workload.overlap.shared_expert = settings.Switch("moe-shared-expert-overlap");
  }
}

}  // namespace

void ReadMegatronWorkload(SettingReader& settings, ImportedJob& job) {
  WorkloadRequest& workload = job.workload;
  workload.sequence_length = settings.Int("seq-length");
  if (!workload.sequence_length.has_value()) {
    settings.Refuse("seq-length", "is not stated; Megatron has no default for it");
  }
  workload.global_batch_size = settings.Int("global-batch-size");
  ReadPrecision(settings, workload);
  ReadAttention(settings, workload);
  ReadDropout(settings, workload);
  ReadOverlap(settings, workload);
  workload.optimizer =
      settings.Choice<Optimizer>("optimizer", kOptimizerWords).value_or(Optimizer::kAdam);
  workload.cross_entropy_kernel =
      settings.Switch("cross-entropy-loss-fusion") ? KernelFusion::kFused : KernelFusion::kUnfused;
  workload.grouped_gemm = settings.Switch("moe-grouped-gemm");
  settings.Text("cross-entropy-fusion-impl");
  ReadExchange(settings, workload);
}

}  // namespace meshwright
