#include "search_space/space/set_dimension.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {
namespace {

// Returns the layers of equal stages, or an empty list if the framework splits the layers.
std::vector<int> EqualStages(int layers, int stages) {
  if (layers == 0) return {};
  return std::vector<int>(static_cast<std::size_t>(stages), layers);
}

// Gives the first stage `first` layers, and the last stage those that the others leave.
void SetEndStages(int first, const SpaceSize& size, ParallelPlan& plan) {
  const int stages = plan.pipeline_parallel;
  const int largest =
      stages > 2 ? plan.layers_per_stage[1]
                 : *std::max_element(plan.layers_per_stage.begin(), plan.layers_per_stage.end());
  plan.layers_per_stage.assign(static_cast<std::size_t>(stages), largest);
  plan.layers_per_stage.front() = first;
  plan.layers_per_stage.back() = size.layers - (stages - 2) * largest - first;
}

void SetRecompute(int code, int stages, RecomputePlan& recompute) {
  recompute.granularity = code == 0   ? RecomputeGranularity::kNone
                          : code == 1 ? RecomputeGranularity::kSelective
                                      : RecomputeGranularity::kFull;
  if (code > 1) recompute.layer_counts.assign(static_cast<std::size_t>(stages), code - 1);
}

template <Dimension kDimension>
constexpr auto kRow = std::get<RowIndex(kDimension)>(kDimensions);

// Sets a dimension to the value that it has at the root.
template <Dimension kDimension>
void Reset(const SpaceSize& size, ParallelPlan& plan) {
  if constexpr (kDimension == Dimension::kContextParallelKind) {
    plan.context_parallel_kind = size.options.context_parallel_kinds.front();
  } else if constexpr (kDimension == Dimension::kRecompute) {
    plan.recompute.granularity = RecomputeGranularity::kNone;
    plan.recompute.layer_counts.clear();
    plan.recompute.selective_layer_counts.clear();
  } else if constexpr (kDimension == Dimension::kLargestStage) {
    plan.layers_per_stage.clear();
  } else if constexpr (kDimension != Dimension::kFirstStage) {  // the same list
    constexpr auto kMember = kRow<kDimension>.member;
    constexpr auto kDefault = kDefaultPlan.*kMember;
    plan.*kMember = kDefault;
  }
}

template <Dimension kDimension>
void Assign(int value, const SpaceSize& size, ParallelPlan& plan) {
  using Value = typename decltype(kRow<kDimension>)::value_type;
  if constexpr (kDimension == Dimension::kRecompute) {
    SetRecompute(value, plan.pipeline_parallel, plan.recompute);
  } else if constexpr (kDimension == Dimension::kLargestStage) {
    plan.layers_per_stage = EqualStages(value, plan.pipeline_parallel);
  } else if constexpr (kDimension == Dimension::kFirstStage) {
    if (value > 0) SetEndStages(value, size, plan);
  } else if constexpr (std::is_same_v<Value, double>) {
    plan.*kRow<kDimension>.member = value / 100.0;
  } else if constexpr (std::is_same_v<Value, bool>) {
    plan.*kRow<kDimension>.member = value == 1;
  } else {
    plan.*kRow<kDimension>.member = static_cast<Value>(value);
  }
}

constexpr bool DividesDevices(Dimension dimension) {
  return dimension == Dimension::kTensorParallel || dimension == Dimension::kContextParallel ||
         dimension == Dimension::kPipelineParallel;
}

template <Dimension kDimension, std::size_t... kLater>
void ResetLater(const SpaceSize& size, ParallelPlan& plan, std::index_sequence<kLater...>) {
  constexpr std::size_t kNext = static_cast<std::size_t>(kDimension) + 1;
  (Reset<static_cast<Dimension>(kNext + kLater)>(size, plan), ...);
}

template <Dimension kDimension>
void SetOne(int value, const SpaceSize& size, ParallelPlan& plan) {
  constexpr auto kLater =
      static_cast<std::size_t>(kDimensionCount - 1 - static_cast<int>(kDimension));
  ResetLater<kDimension>(size, plan, std::make_index_sequence<kLater>());
  Assign<kDimension>(value, size, plan);
  if constexpr (DividesDevices(kDimension)) {
    plan.data_parallel =
        size.device_count / (plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel);
  }
}

using Setter = void (*)(int value, const SpaceSize& size, ParallelPlan& plan);

template <std::size_t... kIndex>
constexpr std::array<Setter, sizeof...(kIndex)> Setters(std::index_sequence<kIndex...>) {
  return {SetOne<static_cast<Dimension>(kIndex)>...};
}
constexpr auto kSetters = Setters(std::make_index_sequence<kDimensionCount>());

}  // namespace

void SetDimension(Dimension dimension, int value, const SpaceSize& size, ParallelPlan& plan) {
  kSetters[static_cast<std::size_t>(dimension)](value, size, plan);
}

}  // namespace meshwright
