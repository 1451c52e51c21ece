#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {

// The dimensions of a plan in the order in which the space is walked. Dimensions that divide the
// devices come first, so that whole subtrees can be cut and counted. Next come those that determine
// the work of a layer; the dimensions of experts are the last of these, because they have many
// values.
enum class Dimension {
  kTensorParallel,
  kContextParallel,
  kContextParallelKind,
  kPipelineParallel,
  kSequenceParallel,
  kMicroBatchSize,
  kExpertParallel,
  kExpertTensorParallel,
  kRankOrder,
  kSchedule,
  kVirtualPipeline,
  kLargestStage,
  kFirstStage,
  kZeroStage,
  kZeroGroupSize,
  kWholeWeights,
  kOptimizerOffload,
  kActivationOffload,
  kRecompute,
};
inline constexpr int kDimensionCount = static_cast<int>(Dimension::kRecompute) + 1;

// A dimension and the field of a plan that it sets. The field's type determines how values are
// coded as integers: numbers as they are, words by their enumerator, booleans as 0 and 1, and
// ratios in per cent. SearchSpace::Values documents the codes of lists and of recomputation.
template <typename Value>
struct DimensionRow {
  using value_type = Value;
  Dimension dimension;
  Value ParallelPlan::*member;
  std::string_view name;  // the name that users see
};

template <typename Value>
constexpr DimensionRow<Value> DimensionOf(Dimension dimension, Value ParallelPlan::*member,
                                          std::string_view name = {}) {
  ForEachRow(kPlanFields, [&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), Value ParallelPlan::*>) {
      if (name.empty() && field.member == member) name = field.facts.name;
    }
  });
  return {dimension, member, name};
}

// The order in which the dimensions are listed to users.
inline constexpr std::tuple kDimensions = {
    DimensionOf(Dimension::kTensorParallel, &ParallelPlan::tensor_parallel),
    DimensionOf(Dimension::kContextParallel, &ParallelPlan::context_parallel),
    DimensionOf(Dimension::kContextParallelKind, &ParallelPlan::context_parallel_kind),
    DimensionOf(Dimension::kPipelineParallel, &ParallelPlan::pipeline_parallel),
    DimensionOf(Dimension::kExpertParallel, &ParallelPlan::expert_parallel),
    DimensionOf(Dimension::kExpertTensorParallel, &ParallelPlan::expert_tensor_parallel),
    DimensionOf(Dimension::kRankOrder, &ParallelPlan::rank_order),
    DimensionOf(Dimension::kSequenceParallel, &ParallelPlan::sequence_parallel),
    DimensionOf(Dimension::kMicroBatchSize, &ParallelPlan::micro_batch_size),
    DimensionOf(Dimension::kSchedule, &ParallelPlan::schedule),
    DimensionOf(Dimension::kVirtualPipeline, &ParallelPlan::virtual_pipeline),
    DimensionOf(Dimension::kLargestStage, &ParallelPlan::layers_per_stage, "largest_stage_layers"),
    DimensionOf(Dimension::kFirstStage, &ParallelPlan::layers_per_stage, "first_stage_layers"),
    DimensionOf(Dimension::kZeroStage, &ParallelPlan::zero_stage),
    DimensionOf(Dimension::kZeroGroupSize, &ParallelPlan::zero_group_size),
    DimensionOf(Dimension::kWholeWeights, &ParallelPlan::whole_weights_ratio),
    DimensionOf(Dimension::kOptimizerOffload, &ParallelPlan::optimizer_offload_ratio),
    DimensionOf(Dimension::kActivationOffload, &ParallelPlan::activation_offload_ratio),
    DimensionOf(Dimension::kRecompute, &ParallelPlan::recompute),
};

// Returns the index of a dimension's row in kDimensions.
constexpr std::size_t RowIndex(Dimension dimension) {
  std::size_t index = 0;
  bool is_found = false;
  ForEachRow(kDimensions, [&](const auto& row) {
    is_found = is_found || row.dimension == dimension;
    if (!is_found) ++index;
  });
  return index;
}

static_assert(
    std::tuple_size_v<decltype(kDimensions)> == kDimensionCount,
    "each value of Dimension needs one row in kDimensions, and the last one ends the count");

}  // namespace meshwright
