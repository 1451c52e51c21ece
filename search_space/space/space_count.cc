// Counts the plans of a space without listing them.
#include <algorithm>
#include <optional>

#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

// Counts the plans over the dimensions from the ZeRO stage to the offload of activations. The later
// ones are independent of one another but depend on the ZeRO stage: whole weights on ZeRO 3, the
// others on any sharding.
std::int64_t CountShardings(const SearchSpace& space, const ParallelPlan& prefix) {
  ParallelPlan plan = prefix;
  const auto size = [&](Dimension dimension) { return std::ssize(space.Values(dimension, plan)); };
  const auto size_of_others = [&] {
    std::int64_t plans = 1;
    for (int depth = static_cast<int>(Dimension::kZeroStage) + 1;
         depth < static_cast<int>(Dimension::kActivationOffload); ++depth) {
      const auto dimension = static_cast<Dimension>(depth);
      if (dimension != Dimension::kWholeWeights) plans *= size(dimension);
    }
    return plans;
  };
  std::int64_t count = 0;
  std::optional<std::int64_t> sharded;  // size_of_others() at each stage above 0
  for (const int stage : space.Values(Dimension::kZeroStage, prefix)) {
    space.Set(Dimension::kZeroStage, stage, plan);
    const std::int64_t plans = stage > 0 && sharded.has_value() ? *sharded : size_of_others();
    if (stage > 0) sharded = plans;
    count += plans * size(Dimension::kWholeWeights);
  }
  return count;
}

}  // namespace

std::int64_t SearchSpace::Count() const { return CountBelow(Root(), 0); }

// Counts the plans over the dimensions [depth, end) by listing their values.
std::int64_t SearchSpace::CountBranch(const ParallelPlan& prefix, int depth, int end) const {
  if (depth >= end) return 1;
  const auto dimension = static_cast<Dimension>(depth);
  const std::vector<int> values = Values(dimension, prefix);
  if (depth + 1 == end) return static_cast<std::int64_t>(values.size());
  ParallelPlan plan = prefix;
  std::int64_t count = 0;
  for (const int value : values) {
    Set(dimension, value, plan);
    count += CountBranch(plan, depth + 1, end);
  }
  return count;
}

// Once the devices are divided, later dimensions depend on few others, so the count is a product
// of: sequence parallelism, micro-batch, experts, rank order, ZeRO and its dependents, and the
// pipeline's schedule, split, offload of activations and recomputation.
std::int64_t SearchSpace::CountAfterDevices(const ParallelPlan& prefix, int depth) const {
  const auto branch = [&](Dimension first, Dimension end) {
    return CountBranch(prefix, std::max(depth, static_cast<int>(first)), static_cast<int>(end));
  };
  const std::int64_t front = branch(Dimension::kSequenceParallel, Dimension::kMicroBatchSize) *
                             branch(Dimension::kMicroBatchSize, Dimension::kExpertParallel) *
                             branch(Dimension::kExpertParallel, Dimension::kRankOrder) *
                             branch(Dimension::kRankOrder, Dimension::kSchedule);
  const std::int64_t sharding = depth <= static_cast<int>(Dimension::kZeroStage)
                                    ? CountShardings(*this, prefix)
                                    : branch(Dimension::kZeroStage, Dimension::kActivationOffload);
  if (front == 0 || sharding == 0) return 0;
  return front * sharding *
         (depth <= static_cast<int>(Dimension::kSchedule)
              ? pipeline_counts_.at(prefix.pipeline_parallel)
              : CountPipelines(prefix, depth));
}

// Counts schedules, splits, offload of activations and recomputation together.
std::int64_t SearchSpace::CountPipelines(const ParallelPlan& prefix, int depth) const {
  constexpr int kEnd = static_cast<int>(Dimension::kZeroStage);
  const int first = std::max(depth, static_cast<int>(Dimension::kSchedule));
  constexpr int kOffload = static_cast<int>(Dimension::kActivationOffload);
  if (depth > kOffload) return CountBranch(prefix, depth, kDimensionCount);
  if (first >= kEnd) {
    const std::vector<int> codes = RecomputeCodes(prefix);
    // The number of choices without recomputation.
    const std::int64_t without = !codes.empty() && codes.front() == 0 ? 1 : 0;
    const std::vector<int> offloads = Values(Dimension::kActivationOffload, prefix);
    const std::int64_t plain = std::ranges::count(offloads, 0);
    return plain * std::ssize(codes) + (std::ssize(offloads) - plain) * without;
  }
  const auto dimension = static_cast<Dimension>(first);
  ParallelPlan plan = prefix;
  std::int64_t count = 0;
  for (const int value : Values(dimension, prefix)) {
    Set(dimension, value, plan);
    count += CountPipelines(plan, first + 1);
  }
  return count;
}

std::int64_t SearchSpace::CountBelow(const ParallelPlan& prefix, int depth) const {
  if (depth > static_cast<int>(Dimension::kPipelineParallel)) {
    return CountAfterDevices(prefix, depth);
  }
  const auto dimension = static_cast<Dimension>(depth);
  ParallelPlan plan = prefix;
  std::int64_t count = 0;
  for (const int value : Values(dimension, prefix)) {
    Set(dimension, value, plan);
    count += CountBelow(plan, depth + 1);
  }
  return count;
}

}  // namespace meshwright
