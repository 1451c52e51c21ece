#include "search_space/space.h"

#include <algorithm>
#include <cstdlib>

namespace meshwright {

std::vector<int> Divisors(int n) {
  std::vector<int> low;
  std::vector<int> high;
  for (int d = 1; static_cast<std::int64_t>(d) * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

SearchSpace::SearchSpace(const ModelSpec& model, int device_count, int global_batch_size,
                         ContextParallelKind context_parallel_kind)
    : model_(model),
      device_count_(device_count),
      global_batch_size_(global_batch_size),
      context_parallel_kind_(context_parallel_kind) {}

ParallelPlan SearchSpace::Root() const {
  ParallelPlan plan;
  plan.data_parallel = device_count_;
  plan.context_parallel_kind = context_parallel_kind_;
  return plan;
}

std::vector<int> SearchSpace::RecomputeCodes(const ParallelPlan& prefix) const {
  const int p = prefix.pipeline_parallel;
  const int largest_stage = (model_.layer_count + p - 1) / p;
  std::vector<int> codes = {0, 1};
  // A virtual stage recomputes as many layers as its sisters.
  for (int layers = prefix.virtual_pipeline; layers <= largest_stage;
       layers += prefix.virtual_pipeline) {
    codes.push_back(1 + layers);
  }
  return codes;
}

std::vector<int> SearchSpace::Values(Dimension dimension, const ParallelPlan& p) const {
  const int rest = device_count_ / p.tensor_parallel;
  switch (dimension) {
    case Dimension::kTensorParallel:
      return Divisors(device_count_);
    case Dimension::kContextParallel:
      return Divisors(rest);
    case Dimension::kPipelineParallel:
      return Divisors(rest / p.context_parallel);
    case Dimension::kExpertParallel:
    case Dimension::kExpertTensorParallel: {
      if (!model_.moe.has_value()) return {1};
      const bool experts = dimension == Dimension::kExpertParallel;
      const int group = device_count_ / p.pipeline_parallel / (experts ? 1 : p.expert_parallel);
      std::vector<int> values = Divisors(experts ? model_.moe->expert_count : p.tensor_parallel);
      std::erase_if(values, [&](int value) { return group % value != 0; });
      return values;
    }
    case Dimension::kSequenceParallel:
      return {0, 1};
    case Dimension::kMicroBatchSize:
      if (global_batch_size_ % p.data_parallel != 0) return {};
      return Divisors(global_batch_size_ / p.data_parallel);
    case Dimension::kVirtualPipeline:
      if (p.pipeline_parallel == 1 || model_.layer_count % p.pipeline_parallel != 0) return {1};
      return Divisors(model_.layer_count / p.pipeline_parallel);
    case Dimension::kZeroStage:
      return {0, 1, 2, 3};
    case Dimension::kRecompute:
      return RecomputeCodes(p);
  }
  std::abort();
}

void SearchSpace::Set(Dimension dimension, int value, ParallelPlan& plan) const {
  const auto devices = [&] {
    plan.data_parallel =
        device_count_ / (plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel);
  };
  switch (dimension) {
    case Dimension::kTensorParallel:
      plan.tensor_parallel = value;
      plan.context_parallel = 1;
      plan.pipeline_parallel = 1;
      return devices();
    case Dimension::kContextParallel:
      plan.context_parallel = value;
      plan.pipeline_parallel = 1;
      return devices();
    case Dimension::kPipelineParallel:
      plan.pipeline_parallel = value;
      return devices();
    case Dimension::kExpertParallel:
      plan.expert_parallel = value;
      return;
    case Dimension::kExpertTensorParallel:
      plan.expert_tensor_parallel = value;
      return;
    case Dimension::kSequenceParallel:
      plan.sequence_parallel = value == 1;
      return;
    case Dimension::kMicroBatchSize:
      plan.micro_batch_size = value;
      return;
    case Dimension::kVirtualPipeline:
      plan.virtual_pipeline = value;
      plan.schedule = value > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
      return;
    case Dimension::kZeroStage:
      plan.zero_stage = value;
      return;
    case Dimension::kRecompute:
      plan.recompute.granularity = value == 0   ? RecomputeGranularity::kNone
                                   : value == 1 ? RecomputeGranularity::kSelective
                                                : RecomputeGranularity::kFull;
      plan.recompute.layer_counts.clear();
      if (value > 1) {
        plan.recompute.layer_counts.assign(static_cast<std::size_t>(plan.pipeline_parallel),
                                           value - 1);
      }
      return;
  }
}

std::int64_t SearchSpace::Count() const { return CountBelow(Root(), 0); }

// Once the devices are divided, later dimensions depend on few of the others, so that the count is
// a product with two short sums.
std::int64_t SearchSpace::CountAfterDevices(const ParallelPlan& prefix, int depth) const {
  const auto is_open = [&](Dimension d) { return depth <= static_cast<int>(d); };
  ParallelPlan plan = prefix;
  std::int64_t count = 1;
  if (is_open(Dimension::kExpertParallel)) {
    count = 0;
    for (const int experts : Values(Dimension::kExpertParallel, plan)) {
      plan.expert_parallel = experts;
      count += static_cast<std::int64_t>(Values(Dimension::kExpertTensorParallel, plan).size());
    }
  } else if (is_open(Dimension::kExpertTensorParallel)) {
    count = static_cast<std::int64_t>(Values(Dimension::kExpertTensorParallel, plan).size());
  }
  for (const Dimension d :
       {Dimension::kSequenceParallel, Dimension::kMicroBatchSize, Dimension::kZeroStage}) {
    if (is_open(d)) count *= static_cast<std::int64_t>(Values(d, plan).size());
  }
  if (!is_open(Dimension::kRecompute)) return count;
  if (!is_open(Dimension::kVirtualPipeline)) {
    return count * static_cast<std::int64_t>(RecomputeCodes(plan).size());
  }
  std::int64_t chunks = 0;
  for (const int v : Values(Dimension::kVirtualPipeline, plan)) {
    plan.virtual_pipeline = v;
    chunks += static_cast<std::int64_t>(RecomputeCodes(plan).size());
  }
  return count * chunks;
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

PlanWalk::PlanWalk(const SearchSpace& space) : PlanWalk(space, space.Root(), 0) {}

PlanWalk::PlanWalk(const SearchSpace& space, const ParallelPlan& prefix, int depth)
    : space_(space), plan_(prefix), root_depth_(depth), depth_(depth) {
  levels_.reserve(kDimensionCount);
}

bool PlanWalk::Next() {
  if (descend_ && depth_ < kDimensionCount) {
    levels_.push_back({.values = space_.Values(static_cast<Dimension>(depth_), plan_)});
  }
  descend_ = true;
  while (!levels_.empty() && levels_.back().next == levels_.back().values.size()) {
    levels_.pop_back();
  }
  if (levels_.empty()) return false;
  Level& level = levels_.back();
  depth_ = root_depth_ + static_cast<int>(levels_.size());
  space_.Set(static_cast<Dimension>(depth_ - 1), level.values[level.next++], plan_);
  return true;
}

}  // namespace meshwright
