#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "vendor_models/abi/meshwright_costmodel.h"

// The table of the columns of a batch of candidates. The message and the C struct of a batch are
// filled and checked by its rows. tests/plan_fields fails if a column or a plan field has no row.

namespace meshwright {

template <typename Value>
using ColumnValues = google::protobuf::RepeatedField<Value>;

template <typename Value>
struct CandidateColumn {
  using value_type = Value;
  std::string_view name;
  const ColumnValues<Value>& (costmodel::v1::Candidates::*get)() const;
  ColumnValues<Value>* (costmodel::v1::Candidates::*get_mutable)();
  const Value* mw_candidates::*in_library;
};

// A list for each candidate: one column has the lengths, the other the lists behind each other.
struct CandidateLists {
  CandidateColumn<std::int32_t> lengths;
  CandidateColumn<std::int32_t> values;
};

template <typename Value>
constexpr CandidateColumn<Value> ColumnRow(
    std::string_view name, const ColumnValues<Value>& (costmodel::v1::Candidates::*get)() const,
    ColumnValues<Value>* (costmodel::v1::Candidates::*get_mutable)(),
    const Value* mw_candidates::*in_library) {
  return {name, get, get_mutable, in_library};
}

// Columns with one value for each candidate.
inline constexpr std::tuple kColumns = [] {
  using Wire = costmodel::v1::Candidates;
  using Library = mw_candidates;
  return std::tuple{
      ColumnRow("tensor_parallel", &Wire::tensor_parallel, &Wire::mutable_tensor_parallel,
                &Library::tensor_parallel),
      ColumnRow("sequence_parallel", &Wire::sequence_parallel, &Wire::mutable_sequence_parallel,
                &Library::sequence_parallel),
      ColumnRow("pipeline_parallel", &Wire::pipeline_parallel, &Wire::mutable_pipeline_parallel,
                &Library::pipeline_parallel),
      ColumnRow("virtual_pipeline", &Wire::virtual_pipeline, &Wire::mutable_virtual_pipeline,
                &Library::virtual_pipeline),
      ColumnRow("data_parallel", &Wire::data_parallel, &Wire::mutable_data_parallel,
                &Library::data_parallel),
      ColumnRow("context_parallel", &Wire::context_parallel, &Wire::mutable_context_parallel,
                &Library::context_parallel),
      ColumnRow("context_parallel_kind", &Wire::context_parallel_kind,
                &Wire::mutable_context_parallel_kind, &Library::context_parallel_kind),
      ColumnRow("expert_parallel", &Wire::expert_parallel, &Wire::mutable_expert_parallel,
                &Library::expert_parallel),
      ColumnRow("expert_tensor_parallel", &Wire::expert_tensor_parallel,
                &Wire::mutable_expert_tensor_parallel, &Library::expert_tensor_parallel),
      ColumnRow("micro_batch_size", &Wire::micro_batch_size, &Wire::mutable_micro_batch_size,
                &Library::micro_batch_size),
      ColumnRow("zero_stage", &Wire::zero_stage, &Wire::mutable_zero_stage, &Library::zero_stage),
      ColumnRow("zero_group_size", &Wire::zero_group_size, &Wire::mutable_zero_group_size,
                &Library::zero_group_size),
      ColumnRow("schedule", &Wire::schedule, &Wire::mutable_schedule, &Library::schedule),
      ColumnRow("recompute", &Wire::recompute, &Wire::mutable_recompute, &Library::recompute),
      ColumnRow("recompute_modules", &Wire::recompute_modules, &Wire::mutable_recompute_modules,
                &Library::recompute_modules),
      ColumnRow("rank_order", &Wire::rank_order, &Wire::mutable_rank_order, &Library::rank_order),
      ColumnRow("optimizer_offload_ratio", &Wire::optimizer_offload_ratio,
                &Wire::mutable_optimizer_offload_ratio, &Library::optimizer_offload_ratio),
      ColumnRow("activation_offload_ratio", &Wire::activation_offload_ratio,
                &Wire::mutable_activation_offload_ratio, &Library::activation_offload_ratio),
      ColumnRow("whole_weights_ratio", &Wire::whole_weights_ratio,
                &Wire::mutable_whole_weights_ratio, &Library::whole_weights_ratio),
  };
}();

inline constexpr CandidateLists kListColumns[] = {
    {ColumnRow("layers_per_stage_length", &costmodel::v1::Candidates::layers_per_stage_length,
               &costmodel::v1::Candidates::mutable_layers_per_stage_length,
               &mw_candidates::layers_per_stage_length),
     ColumnRow("layers_per_stage", &costmodel::v1::Candidates::layers_per_stage,
               &costmodel::v1::Candidates::mutable_layers_per_stage,
               &mw_candidates::layers_per_stage)},
    {ColumnRow("recompute_layers_length", &costmodel::v1::Candidates::recompute_layers_length,
               &costmodel::v1::Candidates::mutable_recompute_layers_length,
               &mw_candidates::recompute_layers_length),
     ColumnRow("recompute_layers", &costmodel::v1::Candidates::recompute_layers,
               &costmodel::v1::Candidates::mutable_recompute_layers,
               &mw_candidates::recompute_layers)},
    {ColumnRow("selective_layers_length", &costmodel::v1::Candidates::selective_layers_length,
               &costmodel::v1::Candidates::mutable_selective_layers_length,
               &mw_candidates::selective_layers_length),
     ColumnRow("selective_layers", &costmodel::v1::Candidates::selective_layers,
               &costmodel::v1::Candidates::mutable_selective_layers,
               &mw_candidates::selective_layers)},
};

// Calls visit(column) for each column with one value for each candidate.
template <typename Visit>
constexpr void ForEachColumn(Visit&& visit) {
  std::apply([&](const auto&... column) { (visit(column), ...); }, kColumns);
}

// Returns where a column is in kColumns; their number if there is none.
constexpr std::size_t ColumnIndex(std::string_view name) {
  std::size_t index = 0;
  bool is_found = false;
  ForEachColumn([&](const auto& column) {
    is_found = is_found || column.name == name;
    if (!is_found) ++index;
  });
  return index;
}

}  // namespace meshwright
