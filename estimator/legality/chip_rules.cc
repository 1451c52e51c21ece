#include "estimator/legality/chip_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "estimator/legality/legality.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

// Chips that a framework does not run on.
struct ChipRule {
  std::string_view frameworks = {};  // names of profiles, separated by spaces
  std::string_view vendor = {};      // of the chips
  std::string_view sentence = {};    // for people
  std::string_view source = {};      // where the framework says so
};

constexpr std::string_view kMegatron = "megatron-core megatron-lm megatron-deepspeed flagscale";
constexpr std::string_view kNeedsCuda = "it trains on devices of torch.cuda only";
constexpr std::string_view kMegatronSource =
    "megatron/training/initialize.py: Megatron requires CUDA";
constexpr std::string_view kNanotronSource =
    "nanotron/parallel/context.py: Only nccl backend is supported for now";
constexpr std::string_view kNeedsMaxTextHardware = "it trains on TPUs and GPUs";
constexpr std::string_view kMaxTextSource =
    "MaxText/configs/base.yml: hardware is tpu, gpu, gpu_multiprocess or cpu";
constexpr std::string_view kDeepSpeedSource =
    "deepspeed/accelerator/real_accelerator.py: SUPPORTED_ACCELERATOR_LIST";

// A vendor whose own port of a framework has its name, as those of AMD and of Chinese vendors do,
// has no row.
constexpr ChipRule kChipRules[] = {
    {kMegatron, "Google", kNeedsCuda, kMegatronSource},
    {kMegatron, "AWS", kNeedsCuda, kMegatronSource},
    {"megatron-core", "Huawei", "Ascend chips run it as mindspeed, which patches it",
     "mindspeed/megatron_adaptor.py; megatron/training/initialize.py: Megatron requires CUDA"},
    {"nanotron", "Google", kNeedsCuda, kNanotronSource},
    {"nanotron", "AWS", kNeedsCuda, kNanotronSource},
    {"nanotron", "Huawei", kNeedsCuda, kNanotronSource},
    {"deepspeed", "Google", "it has no accelerator for TPUs", kDeepSpeedSource},
    {"deepspeed", "AWS", "it has no accelerator for Trainium", kDeepSpeedSource},
    {"torchtitan", "Google", "it has no TPUs among its devices",
     "torchtitan/tools/utils.py: get_device_info, by _get_available_device_type of "
     "torch/_utils.py"},
    {"maxtext", "AWS", kNeedsMaxTextHardware, kMaxTextSource},
    {"maxtext", "Huawei", kNeedsMaxTextHardware, kMaxTextSource},
};

// Frameworks whose kernels of attention are those of flash-attn, of TransformerEngine, or of cuDNN.
constexpr std::string_view kFlashFrameworks =
    "megatron-core flagscale megatron-lm pytorch-fsdp deepspeed nanotron paddle";
constexpr std::string_view kFlashSource =
    "transformer_engine/pytorch/attention/dot_product_attention/utils.py: Disabling FusedAttention "
    "for compute capability < sm80; Dao-AILab/flash-attention: FlashAttention only supports Ampere "
    "GPUs or newer";

// Returns true for chips of NVIDIA before Ampere, the first ones with bf16 (compute
// capability 8.0).
bool IsBeforeAmpere(const ChipSpec& chip) {
  return chip.vendor == "NVIDIA" && !chip.peak.empty() && !chip.peak.contains(Precision::kBf16);
}

bool NeedsAmpere(AttentionKernel kernel) {
  return kernel == AttentionKernel::kFlash2 || kernel == AttentionKernel::kFlash3 ||
         kernel == AttentionKernel::kCudnn;
}

bool LacksKernel(std::string_view framework, AttentionKernel kernel, const ChipSpec& chip) {
  return NeedsAmpere(kernel) && IsBeforeAmpere(chip) && IsListed(framework, kFlashFrameworks);
}

bool HasSinks(const ModelSpec& model) { return model.attention_sinks; }
bool HasSoftCap(const ModelSpec& model) { return model.attention_soft_cap.has_value(); }

// The kernels that compute a form of attention, the first of which is used if nobody states one.
struct KernelRule {
  std::string_view frameworks = {};
  bool (*is_about)(const ModelSpec& model) = nullptr;
  std::span<const AttentionKernel> kernels = {};
  std::string_view what = {};  // for people
  std::string_view source = {};
};

constexpr AttentionKernel kSinkKernels[] = {AttentionKernel::kCudnn, AttentionKernel::kUnfused};
constexpr AttentionKernel kUnfusedOnly[] = {AttentionKernel::kUnfused};
constexpr AttentionKernel kEagerOrFlash3[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash3};
constexpr AttentionKernel kFlashOrEager[] = {AttentionKernel::kFlash2, AttentionKernel::kUnfused};

constexpr KernelRule kKernelRules[] = {
    {"megatron-core", &HasSinks, kSinkKernels, "sinks of attention",
     "NVIDIA/TransformerEngine#2541: Disabling FlashAttention for softmax_type = learnable"},
    {"megatron-core", &HasSoftCap, kUnfusedOnly, "a soft cap of attention's scores",
     "Megatron-Bridge, models/gemma/gemma2_provider.py: unfused SDPA for attn logit softcapping"},
    {"pytorch-fsdp deepspeed", &HasSinks, kEagerOrFlash3, "sinks of attention",
     "transformers/models/gpt_oss/modular_gpt_oss.py: _supports_sdpa = False, "
     "_compatible_flash_implementations"},
    {"pytorch-fsdp deepspeed", &HasSoftCap, kFlashOrEager, "a soft cap of attention's scores",
     "transformers/models/gemma2/modeling_gemma2.py: softcap is an argument of eager and flash "
     "attention only"},
};

// Returns the rule by which a framework does not compute the model's attention with the kernel, or
// null.
const KernelRule* KernelRuleOf(std::string_view framework, AttentionKernel kernel,
                               const ModelSpec& model) {
  for (const KernelRule& rule : kKernelRules) {
    if (!IsListed(framework, rule.frameworks) || !rule.is_about(model)) continue;
    if (std::ranges::find(rule.kernels, kernel) == rule.kernels.end()) return &rule;
  }
  return nullptr;
}

std::string KernelWords(std::span<const AttentionKernel> kernels) {
  std::string words;
  for (const AttentionKernel kernel : kernels) {
    words += fmt::format("{}{}", words.empty() ? "" : " and ", Word(kernel));
  }
  return words;
}

std::string ChipRefusal(const EstimatorProblem& problem, const ChipSpec& chip) {
  const std::string& framework = problem.workload.framework_name;
  const std::vector<std::string>& vendors = problem.profile.chip_vendors;
  if (!vendors.empty() && std::ranges::count(vendors, chip.vendor) == 0) {
    return fmt::format("{}; {} runs on chips of {} only", chip.id, framework,
                       fmt::join(vendors, ", "));
  }
  for (const ChipRule& rule : kChipRules) {
    if (rule.vendor != chip.vendor || !IsListed(framework, rule.frameworks)) continue;
    return fmt::format("{}; {} does not run on it: {} ({})", chip.id, framework, rule.sentence,
                       rule.source);
  }
  return "";
}

}  // namespace

std::vector<FieldViolation> ChipViolations(const EstimatorProblem& problem) {
  std::vector<FieldViolation> found;
  const auto& pools = problem.cluster.pools;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    std::string refusal = ChipRefusal(problem, pools[i].chip);
    if (refusal.empty()) continue;
    found.push_back(
        {.field = fmt::format("cluster.pools[{}].chip", i), .description = std::move(refusal)});
  }
  const Workload& workload = problem.workload;
  for (const NodePool& pool : pools) {
    if (!LacksKernel(workload.framework_name, workload.attention_kernel, pool.chip)) continue;
    found.push_back({.field = "workload.attention_kernel",
                     .description = fmt::format(
                         "{}; {} does not run it on {}: it needs compute capability 8.0 ({})",
                         Word(workload.attention_kernel), workload.framework_name, pool.chip.id,
                         kFlashSource)});
    break;
  }
  if (const KernelRule* rule =
          KernelRuleOf(workload.framework_name, workload.attention_kernel, problem.model)) {
    found.push_back(
        {.field = "workload.attention_kernel",
         .description = fmt::format("{}; {} computes {} with {} only ({})",
                                    Word(workload.attention_kernel), workload.framework_name,
                                    rule->what, KernelWords(rule->kernels), rule->source)});
  }
  return found;
}

std::optional<OtherKernel> KernelOfModel(std::string_view framework, AttentionKernel usual,
                                         const ModelSpec& model) {
  const KernelRule* rule = KernelRuleOf(framework, usual, model);
  if (rule == nullptr) return std::nullopt;
  return OtherKernel{.kernel = rule->kernels.front(),
                     .reason = fmt::format("{} computes {} with {} only ({})", framework,
                                           rule->what, KernelWords(rule->kernels), rule->source)};
}

std::optional<AttentionKernel> SubstituteKernel(std::string_view framework, AttentionKernel usual,
                                                const ChipSpec& chip) {
  constexpr std::string_view kHasNoOther = "nanotron";
  if (!LacksKernel(framework, usual, chip) || framework == kHasNoOther) return std::nullopt;
  // Without --use-flash-attn Megatron-LM runs its fused softmax.
  return framework == "megatron-lm" ? AttentionKernel::kFusedSoftmax : AttentionKernel::kUnfused;
}

}  // namespace meshwright
