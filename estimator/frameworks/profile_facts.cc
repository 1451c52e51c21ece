#include "estimator/frameworks/profile_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "estimator/layer/layer_program.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

// A setter reads the text of one value. If the text is not valid, it says what is allowed.
using Problem = std::optional<std::string>;
using Setter = Problem (*)(const std::string&, FrameworkProfile&);

std::optional<double> ParseNumber(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

constexpr double kLargestCount = 1e7;

template <auto kField>
Problem Choice(const std::string& text, FrameworkProfile& profile) {
  using Enum = std::remove_reference_t<decltype(profile.*kField)>;
  const auto value = ParseChoice<Enum>(text);
  if (!value.has_value()) return "must be one of " + AllowedWords<Enum>();
  profile.*kField = *value;
  return std::nullopt;
}

Problem SetFlag(const std::string& text, bool& field) {
  if (text != "true" && text != "false") return "must be true or false";
  field = text == "true";
  return std::nullopt;
}

template <auto kField>
Problem Flag(const std::string& text, FrameworkProfile& profile) {
  return SetFlag(text, profile.*kField);
}

template <auto kField>
Problem OverlapFlag(const std::string& text, FrameworkProfile& profile) {
  return SetFlag(text, profile.overlap.*kField);
}

template <auto kField>
void Number(double value, FrameworkProfile& profile) {
  profile.*kField = value;
}

template <auto kField>
void Time(double value, FrameworkProfile& profile) {
  profile.*kField = Seconds(value);
}

template <auto kField>
void Size(double value, FrameworkProfile& profile) {
  profile.*kField = RoundedBytes(value);
}

template <auto kField>
void Count(double value, FrameworkProfile& profile) {
  profile.*kField = static_cast<int>(value);
}

template <auto kField>
Problem MoeChoice(const std::string& text, FrameworkProfile& profile) {
  using Enum = std::remove_reference_t<decltype(profile.moe.*kField)>;
  const auto value = ParseChoice<Enum>(text);
  if (!value.has_value()) return "must be one of " + AllowedWords<Enum>();
  profile.moe.*kField = *value;
  return std::nullopt;
}

Problem SplitRule(const std::string& text, FrameworkProfile& profile) {
  if (text != "even" && text != "by_cost") return "must be even or by_cost";
  profile.layer_split = text == "even" ? LayerSplit::kEven : LayerSplit::kByCost;
  return std::nullopt;
}

template <auto kField>
Problem GradientChoice(const std::string& text, FrameworkProfile& profile) {
  const auto value = ParseChoice<GradientDtype>(text);
  if (!value.has_value()) return "must be one of " + AllowedWords<GradientDtype>();
  profile.*kField = value;
  return std::nullopt;
}

std::vector<std::string> NamesIn(const std::string& text) {  // separated by blanks
  std::vector<std::string> names;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

template <auto kField>
Problem Choices(const std::string& text, FrameworkProfile& profile) {
  auto& words = profile.*kField;
  using Enum = typename std::remove_reference_t<decltype(words)>::value_type;
  words.clear();
  for (const std::string& name : NamesIn(text)) {
    const auto value = ParseChoice<Enum>(name);
    if (!value.has_value()) return "must be one or more of " + AllowedWords<Enum>();
    if (std::ranges::find(words, *value) != words.end()) return name + " is listed twice";
    words.push_back(*value);
  }
  return words.empty() ? Problem("must be one or more of " + AllowedWords<Enum>()) : std::nullopt;
}

Problem Modules(const std::string& text, FrameworkProfile& profile) {
  profile.selective_modules = NamesIn(text);
  for (const std::string& name : profile.selective_modules) {
    if (ModuleOf(name) == 0) return "must be one or more of " + AllowedModules();
  }
  return std::nullopt;
}

template <auto kField>
Problem Names(const std::string& text, FrameworkProfile& profile) {
  profile.*kField = NamesIn(text);
  return std::nullopt;
}

// A fact that is a word of a closed set, or a list of names.
struct WordRow {
  std::string_view key;
  Setter set;
};

constexpr WordRow kWordRows[] = {
    {"precision", Choice<&FrameworkProfile::precision>},
    {"attention_kernel", Choice<&FrameworkProfile::attention_kernel>},
    {"norm_kernel", Choice<&FrameworkProfile::norm_kernel>},
    {"cross_entropy_kernel", Choice<&FrameworkProfile::cross_entropy_kernel>},
    {"optimizer", Choice<&FrameworkProfile::optimizer>},
    {"gradient_dtype", Choice<&FrameworkProfile::gradient_dtype>},
    {"fp8_recipe", Choice<&FrameworkProfile::fp8_recipe>},
    {"context_parallel_kinds", Choices<&FrameworkProfile::context_parallel_kinds>},
    {"schedules", Choices<&FrameworkProfile::schedules>},
    {"recomputes_by_stage", Flag<&FrameworkProfile::recomputes_by_stage>},
    {"mixes_recompute", Flag<&FrameworkProfile::mixes_recompute>},
    {"rank_orders", Choices<&FrameworkProfile::rank_orders>},
    {"sizes_end_stages", Flag<&FrameworkProfile::sizes_end_stages>},
    {"offloads_optimizer", Flag<&FrameworkProfile::offloads_optimizer>},
    {"offloads_activations", Flag<&FrameworkProfile::offloads_activations>},
    {"activation_offload_needs_one_stage",
     Flag<&FrameworkProfile::activation_offload_needs_one_stage>},
    {"shards_weights_first", Flag<&FrameworkProfile::shards_weights_first>},
    {"shards_in_groups", Flag<&FrameworkProfile::shards_in_groups>},
    {"grouped_gemm", Flag<&FrameworkProfile::grouped_gemm>},
    {"qkv_is_one_gemm", Flag<&FrameworkProfile::qkv_is_one_gemm>},
    {"gate_up_is_one_gemm", Flag<&FrameworkProfile::gate_up_is_one_gemm>},
    {"attention_copies_heads", Flag<&FrameworkProfile::attention_copies_heads>},
    {"pipeline_sends_shards", Flag<&FrameworkProfile::pipeline_sends_shards>},
    {"rotary_is_fused", Flag<&FrameworkProfile::rotary_is_fused>},
    {"activation_is_fused", Flag<&FrameworkProfile::activation_is_fused>},
    {"sequence_parallel_regathers_input",
     Flag<&FrameworkProfile::sequence_parallel_regathers_input>},
    {"keeps_gathered_input_without_pipeline",
     Flag<&FrameworkProfile::keeps_gathered_input_without_pipeline>},
    {"bias_gradient_is_fused", Flag<&FrameworkProfile::bias_gradient_is_fused>},
    {"gradient_accumulation_is_fused", Flag<&FrameworkProfile::gradient_accumulation_is_fused>},
    {"fp8_inputs_are_kept", Flag<&FrameworkProfile::fp8_inputs_are_kept>},
    {"fp8_weights_are_kept", Flag<&FrameworkProfile::fp8_weights_are_kept>},
    {"hides_backward_tensor_parallel", Flag<&FrameworkProfile::hides_backward_tensor_parallel>},
    {"overlaps_only_sequence_parallel", Flag<&FrameworkProfile::overlaps_only_sequence_parallel>},
    {"gradient_wire_dtype", GradientChoice<&FrameworkProfile::gradient_wire_dtype>},
    {"bf16_gradient_dtype", GradientChoice<&FrameworkProfile::bf16_gradient_dtype>},
    {"buckets_have_owners", Flag<&FrameworkProfile::buckets_have_owners>},
    {"overlaps_only_interleaved_sends", Flag<&FrameworkProfile::overlaps_only_interleaved_sends>},
    {"syncs_chunk_by_chunk", Flag<&FrameworkProfile::syncs_chunk_by_chunk>},
    {"buckets_without_overlap", Flag<&FrameworkProfile::buckets_without_overlap>},
    {"caches_weight_gradients", Flag<&FrameworkProfile::caches_weight_gradients>},
    {"logits_are_gathered", Flag<&FrameworkProfile::logits_are_gathered>},
    {"experts_need_sequence_parallel", Flag<&FrameworkProfile::experts_need_sequence_parallel>},
    {"experts_need_outer_pipeline", Flag<&FrameworkProfile::experts_need_outer_pipeline>},
    {"overlap.gradient_reduce", OverlapFlag<&Overlap::gradient_reduce>},
    {"overlap.parameter_gather", OverlapFlag<&Overlap::parameter_gather>},
    {"overlap.tensor_parallel", OverlapFlag<&Overlap::tensor_parallel>},
    {"overlap.pipeline_p2p", OverlapFlag<&Overlap::pipeline_p2p>},
    {"overlap.expert_parallel", OverlapFlag<&Overlap::expert_parallel>},
    {"overlap.shared_expert", OverlapFlag<&Overlap::shared_expert>},
    {"moe.dispatcher", MoeChoice<&MoeTraining::dispatcher>},
    {"moe.dispatch_dtype", MoeChoice<&MoeTraining::dispatch_dtype>},
    {"layer_split", SplitRule},
    {"selective_modules", Modules},
    {"checked_chips", Names<&FrameworkProfile::checked_chips>},
    {"chip_vendors", Names<&FrameworkProfile::chip_vendors>},
};

// A fact that is a number. The limits only keep arithmetic finite; they are far from the figures of
// any framework.
struct NumberRow {
  std::string_view key;
  FactRange range;
  void (*set)(double, FrameworkProfile&);
  bool is_whole = false;
};

constexpr NumberRow kNumberRows[] = {
    {"low_time_ratio", {0.01, 100}, Number<&FrameworkProfile::low_time_ratio>},
    {"high_time_ratio", {0.01, 100}, Number<&FrameworkProfile::high_time_ratio>},
    {"dropout_ratio", {0, 0.99}, Number<&FrameworkProfile::dropout_ratio>},
    {"layernorm_dropout_ratio", {0, 0.99}, Number<&FrameworkProfile::layernorm_dropout_ratio>},
    {"memory_bound_traffic_ratio",
     {0.1, 10},
     Number<&FrameworkProfile::memory_bound_traffic_ratio>},
    {"host_backward_ratio", {0, 10}, Number<&FrameworkProfile::host_backward_ratio>},
    {"tensor_parallel_bytes_ratio",
     {0, 10},
     Number<&FrameworkProfile::tensor_parallel_bytes_ratio>},
    {"gradient_bucket_exposed_ratio",
     {0, 1},
     Number<&FrameworkProfile::gradient_bucket_exposed_ratio>},
    {"optimizer_traffic_bytes_per_parameter",
     {0, 1000},
     Number<&FrameworkProfile::optimizer_traffic_bytes_per_parameter>},
    {"gradient_traffic_bytes_per_parameter",
     {0, 1000},
     Number<&FrameworkProfile::gradient_traffic_bytes_per_parameter>},
    {"optimizer_bytes_per_parameter",
     {0, 1000},
     Number<&FrameworkProfile::optimizer_bytes_per_parameter>},
    {"extra_bytes_per_parameter", {0, 1000}, Number<&FrameworkProfile::extra_bytes_per_parameter>},
    {"extra_sharded_bytes_per_parameter",
     {0, 1000},
     Number<&FrameworkProfile::extra_sharded_bytes_per_parameter>},
    {"logit_stored_bytes_unfused",
     {0, 1000},
     Number<&FrameworkProfile::logit_stored_bytes_unfused>},
    {"logit_stored_bytes_fused", {0, 1000}, Number<&FrameworkProfile::logit_stored_bytes_fused>},
    {"logit_traffic_bytes_unfused",
     {0, 1000},
     Number<&FrameworkProfile::logit_traffic_bytes_unfused>},
    {"logit_traffic_bytes_fused", {0, 1000}, Number<&FrameworkProfile::logit_traffic_bytes_fused>},
    {"extra_stored_bytes_per_hidden",
     {0, 1000},
     Number<&FrameworkProfile::extra_stored_bytes_per_hidden>},
    {"logit_bytes_between_micro_batches",
     {0, 1000},
     Number<&FrameworkProfile::logit_bytes_between_micro_batches>},
    {"allocator_efficiency", {0.1, 1}, Number<&FrameworkProfile::allocator_efficiency>},
    {"host_per_launch_seconds", {0, 0.01}, Time<&FrameworkProfile::host_per_launch>},
    {"host_per_expert_gemm_seconds", {0, 0.01}, Time<&FrameworkProfile::host_per_expert_gemm>},
    {"routing_launches", {0, 1000}, Count<&FrameworkProfile::routing_launches>, true},
    {"host_per_recomputed_layer_seconds",
     {0, 1},
     Time<&FrameworkProfile::host_per_recomputed_layer>},
    {"collective_latency_per_node_seconds",
     {0, 1},
     Time<&FrameworkProfile::collective_latency_per_node>},
    {"host_per_collective_rank_with_pipeline_seconds",
     {0, 1},
     Time<&FrameworkProfile::host_per_collective_rank_with_pipeline>},
    {"fixed_per_step_seconds", {0, 10000}, Time<&FrameworkProfile::fixed_per_step>},
    {"bucket_parameters", {1, 1e+13}, Number<&FrameworkProfile::bucket_parameters>},
    {"bucket_parameters_per_rank",
     {0, 1e+10},
     Number<&FrameworkProfile::bucket_parameters_per_rank>},
    {"fixed_buffers_bytes", {0, 1e+13}, Size<&FrameworkProfile::fixed_buffers>},
    {"communicator_buffers_in_node_bytes",
     {0, 1e+13},
     Size<&FrameworkProfile::communicator_buffers_in_node>},
    {"communicator_buffers_across_nodes_bytes",
     {0, 1e+13},
     Size<&FrameworkProfile::communicator_buffers_across_nodes>},
    {"largest_zero_stage_with_pipeline",
     {0, 3},
     Count<&FrameworkProfile::largest_zero_stage_with_pipeline>,
     true},
    {"checked_device_count",
     {0, kLargestCount},
     Count<&FrameworkProfile::checked_device_count>,
     true},
};

const NumberRow* FindNumber(std::string_view key) {
  const auto* row = std::ranges::find(kNumberRows, key, &NumberRow::key);
  return row == std::end(kNumberRows) ? nullptr : row;
}

Problem SetNumber(const NumberRow& row, const std::string& text, FrameworkProfile& profile) {
  const std::optional<double> value = ParseNumber(text);
  if (!value.has_value() || *value < row.range.lowest || *value > row.range.highest ||
      (row.is_whole && *value != std::floor(*value))) {
    return fmt::format("must be a {}number from {} to {}", row.is_whole ? "whole " : "",
                       row.range.lowest, row.range.highest);
  }
  row.set(*value, profile);
  return std::nullopt;
}

Problem SetAny(std::string_view key, const std::string& text, FrameworkProfile& profile) {
  if (const NumberRow* row = FindNumber(key)) return SetNumber(*row, text, profile);
  const auto* row = std::ranges::find(kWordRows, key, &WordRow::key);
  if (row != std::end(kWordRows)) return row->set(text, profile);
  return "is not a fact of a framework profile";
}

}  // namespace

absl::Status SetFact(std::string_view key, const std::string& text, FrameworkProfile& profile) {
  const Problem problem = SetAny(key, text, profile);
  if (!problem.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} = {}; {}", key, text, *problem));
}

std::optional<FactRange> RangeOf(std::string_view key) {
  const NumberRow* row = FindNumber(key);
  return row == nullptr ? std::nullopt : std::optional(row->range);
}

}  // namespace meshwright
