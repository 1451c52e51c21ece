#include "search_space/space/space.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "search_space/space/set_dimension.h"

namespace meshwright {

static_assert(kDimensionCount == static_cast<int>(Dimension::kRecompute) + 1);

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

namespace {

// Returns the numbers of equally large chunks that the stages can share evenly, or with fewer
// layers on the first and the last stage. One chunk per stage is no interleaving.
std::vector<int> ChunkCounts(int layers, int stages, const SpaceOptions& options) {
  std::vector<int> counts = Divisors(layers);
  std::erase_if(counts, [&](int chunks) {
    const int shares = layers / chunks;
    const int largest = (shares + stages - 1) / stages;
    const bool leaves_the_ends = (stages - 2) * largest <= shares - 2;
    const bool has_split = shares % stages == 0 || (options.sizes_end_stages && leaves_the_ends);
    return chunks == 1 || !has_split;
  });
  return counts;
}

}  // namespace

SearchSpace::SearchSpace(const ModelSpec& model, int device_count, int global_batch_size,
                         SpaceOptions options)
    : model_(model),
      device_count_(device_count),
      global_batch_size_(global_batch_size),
      options_(std::move(options)) {
  for (const int stages : Divisors(device_count)) {
    pipeline_counts_[stages] =
        CountPipelines({.pipeline_parallel = stages}, static_cast<int>(Dimension::kSchedule));
  }
}

ParallelPlan SearchSpace::Root() const {
  ParallelPlan plan;
  plan.data_parallel = device_count_;
  plan.context_parallel_kind = options_.context_parallel_kinds.front();
  return plan;
}

std::vector<int> SearchSpace::ContextParallelKinds(const ParallelPlan& p) const {
  std::vector<int> kinds;
  for (const ContextParallelKind kind : options_.context_parallel_kinds) {
    kinds.push_back(static_cast<int>(kind));
    if (p.context_parallel == 1) break;  // all kinds are alike
  }
  std::ranges::sort(kinds);
  return kinds;
}

// Returns true if it matters for locality that stages lie between the ranks of data parallelism. It
// does not if one fabric joins all devices, or if each block of tensor x context devices fills
// whole fabrics.
bool SearchSpace::RankOrdersDiffer(const ParallelPlan& p) const {
  const int fabric = options_.fabric_devices;
  return p.pipeline_parallel > 1 && p.data_parallel > 1 && device_count_ > fabric &&
         p.tensor_parallel * p.context_parallel % fabric != 0;
}

std::vector<int> SearchSpace::RankOrders(const ParallelPlan& p) const {
  if (!RankOrdersDiffer(p)) return {static_cast<int>(RankOrder::kTpCpEpDpPp)};
  std::vector<int> orders;
  for (const RankOrder order : options_.rank_orders) orders.push_back(static_cast<int>(order));
  std::ranges::sort(orders);
  return orders;
}

std::vector<int> SearchSpace::ShardingGroups(const ParallelPlan& p) const {
  std::vector<int> groups = {0};  // the whole data-parallel group
  if (!options_.shards_in_groups || p.zero_stage == 0) return groups;
  const int all = p.data_parallel * p.context_parallel;
  for (const int group : Divisors(all)) {
    if (group > 1 && group < all) groups.push_back(group);
  }
  return groups;
}

std::vector<int> SearchSpace::Schedules(const ParallelPlan& p) const {
  std::vector<int> schedules;
  for (const Schedule schedule : options_.schedules) {
    if (schedule == Schedule::kInterleaved1f1b &&
        ChunkCounts(model_.layer_count, p.pipeline_parallel, options_).empty()) {
      continue;
    }
    const bool is_folded = schedule == Schedule::kZbV || schedule == Schedule::kDualpipeV;
    if (is_folded && model_.layer_count % (2 * p.pipeline_parallel) != 0) continue;
    schedules.push_back(static_cast<int>(schedule));
  }
  std::ranges::sort(schedules);
  return schedules;
}

std::vector<int> SearchSpace::VirtualStages(const ParallelPlan& p) const {
  if (p.schedule != Schedule::kInterleaved1f1b) return {1};
  return ChunkCounts(model_.layer_count, p.pipeline_parallel, options_);
}

// Returns the possible numbers of layers of the stages between the first and the last, which have
// as many or fewer. For two stages it is the larger one's number. The chunks of a stage are equal,
// so all numbers are multiples of the number of chunks.
std::vector<int> SearchSpace::LargestStages(const ParallelPlan& p) const {
  const int stages = p.pipeline_parallel;
  const int chunks = p.virtual_pipeline;
  const int shares = model_.layer_count / chunks;
  std::vector<int> largest;
  if (chunks == 1 || shares % stages == 0) largest.push_back(0);
  const bool is_folded = p.schedule == Schedule::kZbV || p.schedule == Schedule::kDualpipeV;
  if (!options_.sizes_end_stages || stages == 1 || is_folded) return largest;
  // Larger than an even share; anything else is the framework's own split.
  const int most = stages == 2 ? shares - 1 : (shares - 2) / (stages - 2);
  for (int share = shares / stages + 1; share <= most; ++share) largest.push_back(share * chunks);
  return largest;
}

// Returns the possible numbers of layers of the first stage. In `p` every stage still has the size
// of the largest one.
std::vector<int> SearchSpace::FirstStages(const ParallelPlan& p) const {
  if (p.layers_per_stage.empty()) return {0};
  const int stages = p.pipeline_parallel;
  const int chunks = p.virtual_pipeline;
  const int largest = p.layers_per_stage[static_cast<std::size_t>(stages / 2)];
  const int ends = model_.layer_count - (stages - 2) * largest;
  std::vector<int> first;
  for (int layers = std::max(chunks, ends - largest); layers <= std::min(largest, ends - chunks);
       layers += chunks) {
    const int last = ends - layers;
    const bool is_smaller = stages == 2 && layers != largest && last != largest;
    if (!is_smaller && !IsEvenSplit(largest, layers, last, stages)) first.push_back(layers);
  }
  return first;
}

// Returns true for the split of most frameworks: equal, with the remainder in the first stages.
bool SearchSpace::IsEvenSplit(int largest, int first, int last, int stages) const {
  const int remainder = model_.layer_count % stages;
  if (first != largest || largest != (model_.layer_count + stages - 1) / stages) return false;
  return (remainder == 0 && last == largest) || (remainder == stages - 1 && last == largest - 1);
}

std::vector<int> SearchSpace::ActivationOffloads(const ParallelPlan& p) const {
  const bool is_barred = options_.activation_offload_needs_one_stage && p.pipeline_parallel > 1;
  return is_barred ? std::vector<int>{0} : options_.activation_offload_percents;
}

std::vector<int> SearchSpace::RecomputeCodes(const ParallelPlan& p) const {
  const auto chosen = options_.chosen.find(Dimension::kRecompute);
  const auto allows = [&](RecomputeGranularity granularity) {
    return chosen == options_.chosen.end() || chosen->second.Allows(static_cast<int>(granularity));
  };
  const int stages = p.pipeline_parallel;
  const int largest_stage =
      p.layers_per_stage.empty()
          ? (model_.layer_count + stages - 1) / stages
          : *std::max_element(p.layers_per_stage.begin(), p.layers_per_stage.end());
  std::vector<int> codes;
  if (allows(RecomputeGranularity::kNone)) codes.push_back(kNoRecomputeCode);
  if (p.activation_offload_ratio > 0) return codes;  // offload excludes recomputation
  if (allows(RecomputeGranularity::kSelective)) codes.push_back(kSelectiveRecomputeCode);
  if (!allows(RecomputeGranularity::kFull)) return codes;
  // All virtual stages of a stage recompute the same number of layers.
  for (int layers = p.virtual_pipeline; layers <= largest_stage; layers += p.virtual_pipeline) {
    if (options_.recomputed_layers.Allows(layers)) {
      codes.push_back(kSelectiveRecomputeCode + layers);
    }
  }
  return codes;
}

// Returns the number that a user means by a value: 0 stands for the framework's split and for the
// whole sharding group.
int SearchSpace::Meaning(Dimension dimension, int value, const ParallelPlan& p) const {
  if (value != 0) return value;
  if (dimension == Dimension::kLargestStage || dimension == Dimension::kFirstStage) {
    return (model_.layer_count + p.pipeline_parallel - 1) / p.pipeline_parallel;
  }
  if (dimension == Dimension::kZeroGroupSize && p.zero_stage > 0) {
    return p.data_parallel * p.context_parallel;
  }
  return value;
}

// Returns true if the user allows a value. If a dimension has no meaning, every value is allowed.
bool SearchSpace::Allows(Dimension dimension, int value, const ParallelPlan& p) const {
  if (dimension == Dimension::kRecompute) return true;  // RecomputeCodes checks it
  if (dimension == Dimension::kPipelineParallel) {
    const int data = device_count_ / (p.tensor_parallel * p.context_parallel * value);
    if (!options_.data_parallel.Allows(data)) return false;
  }
  const bool is_of_pipelines = dimension == Dimension::kSchedule ||
                               dimension == Dimension::kLargestStage ||
                               dimension == Dimension::kFirstStage;
  if (is_of_pipelines && p.pipeline_parallel == 1) return true;
  if (dimension == Dimension::kContextParallelKind && p.context_parallel == 1) return true;
  if (dimension == Dimension::kRankOrder && !RankOrdersDiffer(p)) return true;
  const auto chosen = options_.chosen.find(dimension);
  return chosen == options_.chosen.end() || chosen->second.Allows(value) ||
         chosen->second.Allows(Meaning(dimension, value, p));
}

std::vector<int> SearchSpace::Values(Dimension dimension, const ParallelPlan& p) const {
  std::vector<int> values = AllValues(dimension, p);
  std::erase_if(values, [&](int value) { return !Allows(dimension, value, p); });
  return values;
}

std::vector<int> SearchSpace::AllValues(Dimension dimension, const ParallelPlan& p) const {
  const int rest = device_count_ / p.tensor_parallel;
  switch (dimension) {
    case Dimension::kTensorParallel:
      return Divisors(device_count_);
    case Dimension::kContextParallel:
      return Divisors(rest);
    case Dimension::kContextParallelKind:
      return ContextParallelKinds(p);
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
    case Dimension::kRankOrder:
      return RankOrders(p);
    case Dimension::kSequenceParallel:
      return {0, 1};
    case Dimension::kMicroBatchSize:
      if (global_batch_size_ % p.data_parallel != 0) return {};
      return Divisors(global_batch_size_ / p.data_parallel);
    case Dimension::kSchedule:
      if (p.pipeline_parallel == 1) return {static_cast<int>(Schedule::k1f1b)};
      return Schedules(p);
    case Dimension::kVirtualPipeline:
      return VirtualStages(p);
    case Dimension::kLargestStage:
      return LargestStages(p);
    case Dimension::kFirstStage:
      return FirstStages(p);
    case Dimension::kZeroStage:
      return {0, 1, 2, 3};
    case Dimension::kZeroGroupSize:
      return ShardingGroups(p);
    case Dimension::kWholeWeights:
      return p.zero_stage == 3 ? options_.whole_weights_percents : std::vector<int>{0};
    case Dimension::kOptimizerOffload:
      return p.zero_stage > 0 ? options_.offload_percents : std::vector<int>{0};
    case Dimension::kActivationOffload:
      return ActivationOffloads(p);
    case Dimension::kRecompute:
      return RecomputeCodes(p);
  }
  std::abort();
}

void SearchSpace::Set(Dimension dimension, int value, ParallelPlan& plan) const {
  SetDimension(dimension, value,
               {.options = options_, .device_count = device_count_, .layers = model_.layer_count},
               plan);
}

MostOffloaded SearchSpace::MostOffloadedBelow(const ParallelPlan& p) const {
  return {.optimizer = options_.offload_percents.back() / 100.0,  // ascending
          .activations = ActivationOffloads(p).back() / 100.0};
}

}  // namespace meshwright
