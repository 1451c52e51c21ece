#include "server/tuner/import/recipe.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/base/lower_case.h"
#include "server/tuner/export/recipe_fields.h"

namespace meshwright {
namespace {

constexpr std::string_view kMixed = "mixed_precision";

// Names of mixed precision and the flags that they stand for.
struct MixedPrecision {
  std::string_view name = {};
  std::string_view type = {};    // the flag
  std::string_view recipe = {};  // of fp8; empty: none
};

constexpr MixedPrecision kMixedPrecisions[] = {
    {"bf16_mixed", "bf16", ""},
    {"16_mixed", "fp16", ""},
    {"fp16_mixed", "fp16", ""},
    {"bf16_with_fp8_current_scaling_mixed", "bf16", "tensorwise"},
    {"bf16_with_fp8_delayed_scaling_mixed", "bf16", "delayed"},
    {"bf16_with_fp8_subchannel_scaling_mixed", "bf16", "blockwise"},
    {"bf16_with_mxfp8_mixed", "bf16", "mxfp8"}};

Setting Renamed(const Setting& setting, std::string_view key, std::string value) {
  return {.key = std::string(key),
          .value = std::move(value),
          .place = setting.place,
          .unresolved = setting.unresolved};
}

bool IsTrue(const Setting& setting) { return LowerCase(setting.value) == "true"; }

// Adds the flags of a field that has no flag of its own name. Returns false for other fields.
bool AddSpecial(const Setting& field, std::vector<Setting>& flags) {
  const std::string_view path = field.key;
  if (path == kMixed || path == "trainer.plugins") {
    for (const MixedPrecision& mixed : kMixedPrecisions) {
      if (mixed.name != field.value) continue;
      flags.push_back(Renamed(field, mixed.type, "true"));
      if (!mixed.recipe.empty()) {
        flags.push_back(Renamed(field, "fp8-format", "hybrid"));
        flags.push_back(Renamed(field, "fp8-recipe", std::string(mixed.recipe)));
      }
      return true;
    }
    return false;
  }
  if (path.ends_with("ddp.grad_reduce_in_fp32")) {
    const bool is_fp32 = IsTrue(field);
    flags.push_back(
        Renamed(field, "accumulate-allreduce-grads-in-fp32", is_fp32 ? "true" : "false"));
    flags.push_back(Renamed(field, "grad-reduce-in-bf16", is_fp32 ? "false" : "true"));
    return true;
  }
  return false;
}

bool IsNull(const Setting& setting) { return setting.value == "null" || setting.value == "None"; }

// Returns true if the fields state virtual stages, by their number or a layout. The last one of
// several with a path counts.
bool HasVirtualStages(const std::vector<Setting>& fields) {
  bool has_number = false;
  bool has_layout = false;
  for (const Setting& field : fields) {
    const auto ends = [&](std::string_view name) { return field.key.ends_with(name); };
    if (ends("virtual_pipeline_model_parallel_size")) has_number = !IsNull(field);
    if (ends("pipeline_model_parallel_layout")) has_layout = !IsNull(field);
  }
  return has_number || has_layout;
}

std::vector<Setting> FlagsOf(std::vector<Setting> fields, std::string_view RecipeField::*path) {
  // Only virtual stages overlap their sends, so a recipe without them has no other value than off.
  if (!HasVirtualStages(fields)) {
    std::erase_if(fields,
                  [](const Setting& field) { return field.key.ends_with("overlap_p2p_comm"); });
  }
  std::vector<Setting> flags;
  for (Setting& field : fields) {
    if (AddSpecial(field, flags)) continue;
    const auto row = std::ranges::find_if(kRecipeFields, [&](const RecipeField& known) {
      return !(known.*path).empty() && known.*path == field.key;
    });
    if (row == kRecipeFields.end()) {
      flags.push_back(std::move(field));
      continue;
    }
    const std::string_view flag = row->flag.substr(2);
    constexpr std::string_view kNo = "no-";
    if (!flag.starts_with(kNo)) {
      flags.push_back(Renamed(field, flag, field.value));
    } else {
      flags.push_back(Renamed(field, flag, IsTrue(field) ? "false" : "true"));
    }
  }
  return flags;
}

}  // namespace

std::vector<Setting> BridgeFlags(std::vector<Setting> fields) {
  return FlagsOf(std::move(fields), &RecipeField::bridge);
}

std::vector<Setting> NemoFlags(std::vector<Setting> fields) {
  return FlagsOf(std::move(fields), &RecipeField::nemo);
}

}  // namespace meshwright
