#include "server/plugins/protocol/candidate_columns.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status CheckLength(std::string_view column, int length, int count) {
  if (length == 0 || length == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("candidates.{} has {} entries; must have {} or none", column, length, count));
}

absl::Status CheckList(std::string_view column,
                       const google::protobuf::RepeatedField<std::int32_t>& lengths, int values,
                       int count) {
  RETURN_IF_ERROR(CheckLength(fmt::format("{}_length", column), lengths.size(), count));
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) {
    if (length < 0) {
      return absl::InvalidArgumentError(
          fmt::format("candidates.{}_length has {}; must be >= 0", column, length));
    }
    sum += length;
  }
  if (sum == values) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("candidates.{} has {} entries; its lengths add up to {}", column, values, sum));
}

}  // namespace

absl::Status CheckColumns(const costmodel::v1::Candidates& c) {
  const int n = c.count();
  if (n < 0) {
    return absl::InvalidArgumentError(fmt::format("candidates.count = {}; must be >= 0", n));
  }
  RETURN_IF_ERROR(CheckLength("tensor_parallel", c.tensor_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("sequence_parallel", c.sequence_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("pipeline_parallel", c.pipeline_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("virtual_pipeline", c.virtual_pipeline_size(), n));
  RETURN_IF_ERROR(CheckLength("data_parallel", c.data_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("context_parallel", c.context_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("context_parallel_kind", c.context_parallel_kind_size(), n));
  RETURN_IF_ERROR(CheckLength("expert_parallel", c.expert_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("expert_tensor_parallel", c.expert_tensor_parallel_size(), n));
  RETURN_IF_ERROR(CheckLength("micro_batch_size", c.micro_batch_size_size(), n));
  RETURN_IF_ERROR(CheckLength("zero_stage", c.zero_stage_size(), n));
  RETURN_IF_ERROR(CheckLength("zero_group_size", c.zero_group_size_size(), n));
  RETURN_IF_ERROR(CheckLength("schedule", c.schedule_size(), n));
  RETURN_IF_ERROR(CheckLength("recompute", c.recompute_size(), n));
  RETURN_IF_ERROR(CheckLength("recompute_modules", c.recompute_modules_size(), n));
  RETURN_IF_ERROR(CheckLength("rank_order", c.rank_order_size(), n));
  RETURN_IF_ERROR(CheckLength("optimizer_offload_ratio", c.optimizer_offload_ratio_size(), n));
  RETURN_IF_ERROR(CheckLength("activation_offload_ratio", c.activation_offload_ratio_size(), n));
  RETURN_IF_ERROR(CheckLength("whole_weights_ratio", c.whole_weights_ratio_size(), n));
  RETURN_IF_ERROR(
      CheckList("layers_per_stage", c.layers_per_stage_length(), c.layers_per_stage_size(), n));
  RETURN_IF_ERROR(
      CheckList("recompute_layers", c.recompute_layers_length(), c.recompute_layers_size(), n));
  return CheckList("selective_layers", c.selective_layers_length(), c.selective_layers_size(), n);
}

}  // namespace meshwright
