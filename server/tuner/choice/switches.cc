#include "server/tuner/choice/switches.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "search_space/spec/choice_codes.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr std::string_view kTensorOverlap = "overlap.tensor_parallel";
constexpr std::string_view kReduceOverlap = "overlap.gradient_reduce";
constexpr std::string_view kGatherOverlap = "overlap.parameter_gather";
constexpr std::string_view kGradients = "gradient_dtype";
constexpr std::string_view kLoss = "cross_entropy_kernel";

constexpr Switch kSwitches[] = {
    {.frameworks = "megatron-core flagscale",
     .field = kTensorOverlap,
     .value = "true",
     .flag = "--tp-comm-overlap",
     .chips = "nvidia-h100-sxm5-80gb nvidia-h200-sxm5-141gb nvidia-b200-sxm-180gb "
              "nvidia-gb200-nvl72 nvidia-gb300-nvl72",
     .source = "runs of MLPerf (GPT-3 175B, Llama 3.1), of NVIDIA DGX Cloud benchmarking and of "
               "Megatron-Bridge (Llama 3.1 405B, Nemotron) that set it"},
    {.frameworks = "mindspeed",
     .field = kTensorOverlap,
     .value = "true",
     .flag = "--use-ascend-mc2",
     .source = "MindSpeed: docs/features/mc2.md"},
    {.frameworks = "torchtitan",
     .field = kTensorOverlap,
     .value = "true",
     .flag = "parallelism.enable_async_tensor_parallel",
     .source = "torchtitan: docs/performance.md, asynchronous tensor parallelism"},
    {.frameworks = "megatron-lm mindspeed",
     .field = kReduceOverlap,
     .value = "true",
     .flag = "--overlap-grad-reduce",
     .source = "megatron/training/arguments.py"},
    {.frameworks = "megatron-core flagscale",
     .field = kGradients,
     .value = "bf16",
     .flag = "--grad-reduce-in-bf16",
     .chips = "nvidia-h100-sxm5-80gb nvidia-gb200-nvl72 nvidia-gb300-nvl72 nvidia-b200-sxm-180gb",
     .changes_numerics = true,
     .source = "Megatron-Bridge: performance recipes"},
    {.frameworks = "megatron-core flagscale mindspeed",
     .field = kLoss,
     .value = "fused",
     .flag = "--cross-entropy-loss-fusion",
     .chips = "nvidia-h100-sxm5-80gb nvidia-gb200-nvl72 nvidia-gb300-nvl72 nvidia-b200-sxm-180gb",
     .changes_numerics = true,
     .source = "Megatron-Bridge: performance recipes"},
};

// Returns true if `name` is one of the words.
bool HasWord(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

const WorkloadSettingRow& RowOf(std::string_view field) {
  const auto* const row = std::ranges::find(kWorkloadSettings, field, &WorkloadSettingRow::field);
  if (row == kWorkloadSettings.end()) std::abort();
  return *row;
}

// Gradients are reduced in bf16 only where the weights are.
bool IsMeant(const Switch& row, const Workload& workload) {
  return row.field != kGradients || workload.precision == Precision::kBf16 ||
         workload.precision == Precision::kFp8;
}

void Set(const WorkloadSetting& setting, Workload& workload) {
  const int code = RowOf(setting.field).code(setting.value).value();
  if (setting.field == kTensorOverlap) {
    workload.overlap.tensor_parallel = code != 0;
  } else if (setting.field == kReduceOverlap) {
    workload.overlap.gradient_reduce = code != 0;
  } else if (setting.field == kGatherOverlap) {
    workload.overlap.parameter_gather = code != 0;
  } else if (setting.field == kGradients) {
    workload.gradient_dtype = static_cast<GradientDtype>(code);
  } else if (setting.field == kLoss) {
    workload.cross_entropy_kernel = static_cast<KernelFusion>(code);
  } else {
    std::abort();
  }
}

}  // namespace

std::span<const Switch> Switches() { return kSwitches; }

std::vector<const Switch*> OpenSwitches(const Problem& problem, const WorkloadRequest& stated) {
  std::vector<const Switch*> open;
  for (const Switch& row : kSwitches) {
    const WorkloadSettingRow& setting = RowOf(row.field);
    const bool is_stated =
        setting.stated(stated).has_value() ||
        std::ranges::find(stated.framework_facts, row.field, &FrameworkFactRequest::name) !=
            stated.framework_facts.end();
    const bool is_open = HasWord(row.frameworks, problem.workload.framework_name) && !is_stated &&
                         IsMeant(row, problem.workload) &&
                         setting.code(row.value) != setting.chosen(problem.workload);
    if (is_open) open.push_back(&row);
  }
  return open;
}

bool MayTurnOn(const Switch& row, std::string_view chip) {
  return !row.changes_numerics && HasWord(row.chips, chip);
}

Problem WithSettings(Problem problem, std::span<const WorkloadSetting> settings) {
  for (const WorkloadSetting& setting : settings) Set(setting, problem.workload);
  return problem;
}

std::vector<WorkloadSetting> SettingsOf(std::span<const Switch* const> switches) {
  std::vector<WorkloadSetting> settings;
  for (const Switch* const row : switches) {
    settings.push_back({.field = std::string(row->field), .value = std::string(row->value)});
  }
  return settings;
}

}  // namespace meshwright
