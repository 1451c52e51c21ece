#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_value.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/plan_words.h"
#include "server/tuner/export/recipe_fields.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNoOverlap = "--no-overlap-p2p-communication";

// Returns the value of the field that asks for a flag.
std::string AskedValue(std::string_view source, const ParallelPlan& plan) {
  constexpr std::string_view kPlan = "plan.";
  return source.starts_with(kPlan) ? PlanValue(plan, source.substr(kPlan.size())) : "true";
}

// Returns the field of the question that asks for a flag.
std::string_view SourceOf(std::string_view flag) {
  const auto* const field = std::ranges::find(kRecipeFields, flag, &RecipeField::flag);
  return field == kRecipeFields.end() || field->source.empty() ? "plan" : field->source;
}

// Returns the value of a flag's field, which for a flag that switches something off is false.
Json SettingOf(const Flag& flag) {
  return flag.name.starts_with("--no-") ? Json(false) : ValueOf(flag);
}

// Returns the flags of the plan. The sizes of the model are those of a recipe.
FlagList PlanFlags(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  FlagList flags(refusals);
  AddMegatronLayoutFlags(problem, plan, flags);
  AddMegatronRecomputeFlags(problem, plan, flags);
  AddMegatronOffloadFlags(problem, plan, flags);
  flags.Add("--seq-length", problem.workload.sequence_length);
  AddMegatronAttentionFlags(problem.workload, flags);
  AddMegatronFusionFlags(problem.workload, flags);
  return flags;
}

// Returns the name of Megatron-Bridge's and NeMo's settings of mixed precision.
std::string MixedPrecision(const Workload& workload, Refusals& refusals) {
  if (workload.precision == Precision::kBf16) return "bf16_mixed";
  if (workload.precision == Precision::kFp16) return "fp16_mixed";
  if (workload.precision == Precision::kFp32) {
    refusals.Refuse("workload.precision", "fp32; recipes have mixed precision");
    return "";
  }
  switch (workload.fp8_recipe) {
    case Fp8Recipe::kTensorwise:
      return "bf16_with_fp8_current_scaling_mixed";
    case Fp8Recipe::kDelayed:
      return "bf16_with_fp8_delayed_scaling_mixed";
    case Fp8Recipe::kBlockwise:
      return "bf16_with_fp8_subchannel_scaling_mixed";
    case Fp8Recipe::kMxfp8:
      return "bf16_with_mxfp8_mixed";
    case Fp8Recipe::kRowwise:
      break;
  }
  refusals.Refuse("workload.fp8_recipe",
                  "rowwise; recipes have tensorwise, delayed, blockwise "
                  "and mxfp8");
  return "";
}

void CheckOptimizer(const Workload& workload, Refusals& refusals) {
  if (workload.optimizer == Optimizer::kAdam) return;
  refusals.Refuse("workload.optimizer",
                  fmt::format("{}; recipes have adam", Word(workload.optimizer)));
}

// Flags of the weights' type belong to the settings of mixed precision.
bool IsOfMixedPrecision(std::string_view flag) {
  return flag == "--fp8-param-gather" || flag == "--reuse-grad-buf-for-mxfp8-param-ag";
}

// The value of a field of a recipe.
struct FieldValue {
  std::string_view path = {};
  Json value = {};
};

// Returns the values of a plan's fields, also of those at their default: they replace the values of
// a recipe. Calls `refuse` for flags without a field.
std::vector<FieldValue> FieldsOf(const FlagList& flags, const ParallelPlan& plan,
                                 std::string_view RecipeField::*path,
                                 const std::function<void(const Flag&)>& refuse) {
  std::vector<FieldValue> fields;
  std::set<std::string_view> stated;
  for (const Flag& flag : flags.flags()) {
    if (IsOfMixedPrecision(flag.name)) continue;
    stated.insert(flag.name);
    const std::size_t before = fields.size();
    for (const RecipeField& field : kRecipeFields) {
      if (field.flag != flag.name || (field.*path).empty()) continue;
      fields.push_back({.path = field.*path, .value = SettingOf(flag)});
    }
    if (fields.size() == before) refuse(flag);
  }
  for (const RecipeField& field : kRecipeFields) {
    if ((field.*path).empty() || stated.contains(field.flag)) continue;
    if (field.flag == kNoOverlap) {
      // Without virtual stages Megatron-Core refuses overlapped sends.
      fields.push_back({.path = field.*path, .value = plan.virtual_pipeline > 1});
    } else if (!field.unset.empty()) {
      fields.push_back({.path = field.*path, .value = Json::parse(field.unset)});
    }
  }
  return fields;
}

// Sets a value at a path such as "model.seq_length".
void SetPath(std::string_view path, Json value, Json& config) {
  Json* node = &config;
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    node = &(*node)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*node)[std::string(path)] = std::move(value);
}

std::vector<std::string> LeftOut(const Problem& problem, std::string_view recipe) {
  return {fmt::format("{}, whose model has the sizes; the plan is for {}", recipe,
                      ModelSizes(problem.model)),
          "other facts of the recipe's model: layernorm_epsilon, rotary_base, rotary scaling, "
          "add_qkv_bias, qk_layernorm, the router's settings",
          "comm_overlap of the recipe: tp_comm_overlap, if the plan has no tensor parallelism or "
          "does not overlap it",
          "data and tokenizer, length, learning rate, checkpoints: those of the recipe"};
}

}  // namespace

LaunchConfig ExportMegatronBridge(const Problem& problem, const ParallelPlan& plan,
                                  Refusals& refusals) {
  const FlagList flags = PlanFlags(problem, plan, refusals);
  Json config = Json::object();
  config["mixed_precision"] = MixedPrecision(problem.workload, refusals);
  CheckOptimizer(problem.workload, refusals);
  const auto refuse = [&](const Flag& flag) {
    refusals.Refuse("plan",
                    fmt::format("needs {}; Megatron-Bridge has no field for it here", flag.name));
  };
  for (const FieldValue& field : FieldsOf(flags, plan, &RecipeField::bridge, refuse)) {
    SetPath(field.path, field.value, config);
  }
  config["ddp"]["grad_reduce_in_fp32"] = problem.workload.gradient_dtype == GradientDtype::kFp32;
  return {
      .text = YamlText(config),
      .file_name = "plan.yaml",
      .versions = "0.1 to 0.2",
      .command = MegatronEnvironment(plan) +
                 TorchrunCommand(JobSizeOf(problem, plan), "pretrain.py --config-file plan.yaml"),
      .left_out = LeftOut(problem, "the recipe that pretrain.py starts from")};
}

LaunchConfig ExportNemo(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  const FlagList flags = PlanFlags(problem, plan, refusals);
  const JobSize size = JobSizeOf(problem, plan);
  FlagList fields(refusals);
  const auto add = [&](std::string_view path, const Json& value) {
    // The command reads Python's words for booleans and null, and a shell reads it before.
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_boolean()) text = value.get<bool>() ? "True" : "False";
    if (value.is_null()) text = "None";
    if (text.find_first_of("[|*") != std::string::npos) text = "'" + text + "'";
    fields.Add(fmt::format("{}={}", path, text));
  };
  add("trainer.num_nodes", size.nodes);
  add("trainer.devices", size.processes_per_node);
  if (size.sizes_differ) {
    refusals.Refuse("cluster.pools.devices_per_node",
                    "not the same on all pools of the plan; NeMo has trainer.devices of one size");
  }
  add("trainer.plugins", MixedPrecision(problem.workload, refusals));
  if (problem.workload.precision == Precision::kFp8) {
    refusals.Refuse("workload.precision", "fp8; NeMo sets it in the recipe's own code");
  }
  CheckOptimizer(problem.workload, refusals);
  const auto refuse = [&](const Flag& flag) {
    const std::string_view source = SourceOf(flag.name);
    refusals.Refuse(source, fmt::format("{}; NeMo's recipes have no field for {}",
                                        AskedValue(source, plan), flag.name));
  };
  for (const FieldValue& field : FieldsOf(flags, plan, &RecipeField::nemo, refuse)) {
    add(field.path, field.value);
  }
  add("trainer.strategy.ddp.grad_reduce_in_fp32",
      problem.workload.gradient_dtype == GradientDtype::kFp32);
  return {.text = fields.Text(),
          .versions = "2.2 to 2.4",
          .command = MegatronEnvironment(plan) + "nemo llm pretrain --factory $RECIPE -y",
          .left_out = LeftOut(problem,
                              "RECIPE, and on several nodes the launcher that starts the command")};
}

}  // namespace meshwright
