#include "server/tuner/import/megatron_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "search_space/base/lower_case.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {
namespace {

constexpr std::string_view kMeshes = "hetero-process-meshes";
constexpr std::string_view kTypes = "hetero-device-types";
constexpr std::string_view kSplit = "hetero-pipeline-layer-split";
constexpr std::string_view kStages = "pipeline-model-parallel-size";

// Returns true if `type` is the chip's name or consists of whole words of it: "A800" is a part of
// "nvidia-a800-sxm4-80gb".
bool NamesChip(std::string_view type, std::string_view chip) {
  const std::string words = "-" + LowerCase(chip) + "-";
  return !type.empty() && words.find("-" + LowerCase(type) + "-") != std::string::npos;
}

std::optional<std::size_t> FindPool(std::string_view type,
                                    const std::vector<PoolOfCluster>& pools) {
  const auto named = std::ranges::find(pools, type, &PoolOfCluster::name);
  if (named != pools.end()) return static_cast<std::size_t>(named - pools.begin());
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (!NamesChip(type, pools[i].chip)) continue;
    if (found.has_value()) return std::nullopt;
    found = i;
  }
  return found;
}

// Returns the pool of each type of device.
std::optional<std::map<std::string, std::size_t>> PoolsOfTypes(
    SettingReader& settings, const std::vector<std::string>& types,
    const std::vector<PoolOfCluster>& pools) {
  std::map<std::string, std::size_t> found;
  std::map<std::size_t, std::string> type_of_pool;
  for (const std::string& type : types) {
    const auto pool = FindPool(type, pools);
    if (!pool.has_value()) {
      std::vector<std::string> known;
      known.reserve(pools.size());
      for (const PoolOfCluster& each : pools) {
        known.push_back(fmt::format("{} ({})", each.name, each.chip));
      }
      settings.Refuse(kTypes, fmt::format("{}; must be the name of a pool, or name the chip of one "
                                          "pool only: {}",
                                          type, fmt::join(known, ", ")));
      return std::nullopt;
    }
    const auto [other, is_new] = type_of_pool.emplace(*pool, type);
    if (!is_new && other->second != type) {
      settings.Refuse(kTypes, fmt::format("{} and {}; both are pool {}", other->second, type,
                                          pools[*pool].name));
      return std::nullopt;
    }
    found.emplace(type, *pool);
  }
  return found;
}

// Takes the rows of {tensor, context, expert, data, pipeline}. Before 2025 they had no degree of
// experts.
std::vector<StagesOnPool> TakeRows(SettingReader& settings, std::size_t type_count) {
  constexpr int kMostRanks = 40000;
  const std::vector<int> sizes = settings.Ints(kMeshes);
  const std::size_t width = type_count == 0 ? 0 : sizes.size() / type_count;
  const bool is_whole = width * type_count == sizes.size() && (width == 4 || width == 5);
  const bool is_valid =
      std::ranges::all_of(sizes, [](int size) { return size >= 1 && size <= kMostRanks; });
  if (!is_whole || !is_valid) {
    settings.Refuse(kMeshes, fmt::format("[{}]; must be tensor, context, expert, data and pipeline "
                                         "parallelism, each between 1 and {}, for each of the {} "
                                         "hetero-device-types",
                                         fmt::join(sizes, ", "), kMostRanks, type_count));
    return {};
  }
  std::vector<StagesOnPool> rows;
  for (std::size_t at = 0; at < sizes.size(); at += width) {
    rows.push_back({.tensor = sizes[at],
                    .context = sizes[at + 1],
                    .expert = width == 5 ? sizes[at + 2] : 1,
                    .data = sizes[at + width - 2],
                    .stage_count = sizes[at + width - 1]});
  }
  return rows;
}

int DevicesOf(const StagesOnPool& stages) { return stages.tensor * stages.context * stages.data; }

// Returns false if a stage is neither whole nodes of its pool nor a part of one node, if there are
// more than it has, or if micro-batches are not whole.
bool CheckRows(SettingReader& settings, const std::vector<StagesOnPool>& rows,
               const std::vector<PoolOfCluster>& pools, int micro_batch) {
  const long long sequences = 1LL * rows.front().data * micro_batch;
  std::map<std::size_t, long long> taken;  // devices of each pool
  for (const StagesOnPool& row : rows) {
    const PoolOfCluster& pool = pools[row.pool];
    const long long devices = 1LL * row.tensor * row.context * row.data;
    // Ranks follow one another, so that a stage begins where the one before it ends.
    const long long inside = taken[row.pool] % pool.devices_per_node;
    const bool is_whole = devices % pool.devices_per_node == 0 && inside == 0;
    const bool is_part = devices < pool.devices_per_node && inside % devices == 0 &&
                         pool.devices_per_node % devices == 0;
    if (!is_whole && !is_part) {
      settings.Refuse(kMeshes, fmt::format("a stage of {} devices on pool {}; must be whole nodes "
                                           "of {} devices, or one of equal parts of a node",
                                           devices, pool.name, pool.devices_per_node));
      return false;
    }
    taken[row.pool] += devices * row.stage_count;
    const long long all = 1LL * pool.node_count * pool.devices_per_node;
    if (devices > all || row.stage_count > all / devices) {
      settings.Refuse(kMeshes, fmt::format("{} stages of {} devices; pool {} has {}",
                                           row.stage_count, devices, pool.name, all));
      return false;
    }
    if (sequences % row.data != 0) {
      settings.Refuse(kMeshes,
                      fmt::format("data parallelism of {}; must divide that of the first mesh x "
                                  "micro-batch-size = {}",
                                  row.data, sequences));
      return false;
    }
  }
  return true;
}

// Refuses what FlagScale's meshes do not have.
void TakeOtherSplits(SettingReader& settings, PlanRequest& plan) {
  for (const char* key :
       {"num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
        "decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"}) {
    const auto value = settings.Int(key);
    if (!value.has_value()) continue;
    settings.Refuse(key, fmt::format("{}; FlagScale has meshes without it", *value));
  }
  if (settings.Switch("standalone-embedding-stage")) {
    settings.Refuse("standalone-embedding-stage", "true; FlagScale has meshes without it");
  }
  plan.virtual_pipeline = 1;
  plan.schedule = Schedule::k1f1b;
}

// Sets the layers of the stages: the stated ones, or else equal shares. Returns false if they are
// not those of the model.
bool ReadSplit(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  const int stages = *plan.pipeline_parallel;
  std::vector<int>& split = plan.layers_per_stage;
  split = settings.Ints(kSplit);
  if (split.empty() && model != nullptr && model->layer_count % stages == 0) {
    split.assign(static_cast<std::size_t>(stages), model->layer_count / stages);
  }
  const int sum = std::accumulate(split.begin(), split.end(), 0);
  const bool is_of_model = model == nullptr || sum == model->layer_count;
  if (std::ssize(split) == stages && is_of_model) return true;
  settings.Refuse(kSplit, fmt::format("[{}]; must be the {} layers of the model on {} stages",
                                      fmt::join(split, ", "),
                                      model == nullptr ? 0 : model->layer_count, stages));
  return false;
}

// A plan has one size of expert parallelism for all stages.
void ReadMeshExperts(SettingReader& settings, const std::vector<StagesOnPool>& rows,
                     bool has_experts, PlanRequest& plan) {
  settings.Degree("expert-model-parallel-size");
  const bool states_tensor = settings.IsSet("expert-tensor-parallel-size");
  const int stated_tensor = settings.Degree("expert-tensor-parallel-size");
  constexpr std::string_view kExpertTensor = "expert-tensor-parallel-size-per-process-mesh";
  std::vector<int> tensor = settings.Ints(kExpertTensor);
  if (tensor.empty()) {
    for (const StagesOnPool& row : rows) {
      tensor.push_back(states_tensor ? stated_tensor : row.tensor);
    }
  }
  std::vector<int> experts;
  experts.reserve(rows.size());
  for (const StagesOnPool& row : rows) experts.push_back(row.expert);
  const auto differ = [](const std::vector<int>& values) {
    return std::ranges::any_of(values, [&](int value) { return value != values.front(); });
  };
  if (differ(experts) || (!has_experts && experts.front() > 1)) {
    settings.Refuse(kMeshes, fmt::format("expert parallelism [{}]; a plan has one size for all "
                                         "stages, and 1 without experts",
                                         fmt::join(experts, ", ")));
  }
  if (!has_experts) return;
  if (differ(tensor)) {
    settings.Refuse(kExpertTensor, fmt::format("[{}]; a plan has one size for all stages",
                                               fmt::join(tensor, ", ")));
  }
  plan.expert_parallel = experts.front();
  plan.expert_tensor_parallel = tensor.front();
}

// Returns the recomputation of one stage, of which the flat plan states that of all stages.
RecomputePlan RecomputeOfStage(const RecomputePlan& all, std::size_t stage, int layers) {
  if (all.layer_counts.empty()) return all;
  const int count = std::min(all.layer_counts[stage], layers);
  if (count == 0) return {};
  return {.granularity = RecomputeGranularity::kFull, .layer_counts = {count}};
}

}  // namespace

bool HasMeshes(SettingReader& settings) {
  if (settings.Switch("enable-hetero")) return true;
  settings.Extract([](const Setting& setting) { return setting.key.starts_with("hetero-"); });
  return false;
}

std::vector<StagesOnPool> ReadMeshes(SettingReader& settings, const ReaderContext& context,
                                     ImportedJob& job) {
  PlanRequest& plan = job.plan;
  const std::vector<std::string> types = settings.List(kTypes);
  std::vector<StagesOnPool> rows = TakeRows(settings, types.size());
  if (rows.empty()) return {};
  if (context.pools.empty()) {
    settings.Refuse("enable-hetero",
                    "true; needs a cluster whose pools state node_count and devices_per_node, and "
                    "are the hetero-device-types");
    return {};
  }
  const auto pools = PoolsOfTypes(settings, types, context.pools);
  if (!pools.has_value()) return {};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].pool = pools->at(types[i]);
  if (!CheckRows(settings, rows, context.pools, plan.micro_batch_size.value_or(1))) return {};
  int stages = 0;
  int devices = 0;
  bool splits_tensors = false;
  for (const StagesOnPool& row : rows) {
    stages += row.stage_count;
    devices += DevicesOf(row) * row.stage_count;
    splits_tensors = splits_tensors || row.tensor > 1;
  }
  if (*plan.pipeline_parallel != stages) {
    settings.Refuse(kStages,
                    fmt::format("{}; the meshes have {} stages", *plan.pipeline_parallel, stages));
  }
  job.devices = devices;
  plan.sequence_parallel = settings.Switch("sequence-parallel") && splits_tensors;
  plan.tensor_parallel = rows.front().tensor;
  plan.context_parallel = rows.front().context;
  plan.data_parallel = rows.front().data;
  plan.pipeline_parallel = stages;
  const ModelSpec* model = ModelOf(context, job);
  TakeOtherSplits(settings, plan);
  ReadMeshExperts(settings, rows, model != nullptr && model->moe.has_value(), plan);
  if (!ReadSplit(settings, model, plan)) return {};
  return rows;
}

std::vector<StagesOnPool> PlaceOnPools(SettingReader& settings, const ReaderContext& context,
                                       ImportedJob& job) {
  const PlanRequest& plan = job.plan;
  if (!plan.data_parallel.has_value()) return {};
  const int stages = *plan.pipeline_parallel;
  StagesOnPool shape = {.tensor = *plan.tensor_parallel,
                        .context = *plan.context_parallel,
                        .data = *plan.data_parallel};
  std::vector<StagesOnPool> placed;
  std::vector<std::string> places;
  int count = 0;
  for (std::size_t i = 0; i < context.pools.size(); ++i) {
    const PoolOfCluster& pool = context.pools[i];
    const int nodes = DevicesOf(shape) / pool.devices_per_node;
    const bool fills =
        nodes > 0 && DevicesOf(shape) % pool.devices_per_node == 0 && pool.node_count % nodes == 0;
    if (!fills) break;
    shape.pool = i;
    shape.stage_count = pool.node_count / nodes;
    count += shape.stage_count;
    places.push_back(fmt::format("{} on {}", shape.stage_count, pool.name));
    placed.push_back(shape);
  }
  if (placed.size() != context.pools.size() || count != stages) {
    settings.Refuse(kStages, fmt::format("{}; stages of {} devices do not fill the {} pools of the "
                                         "cluster with whole nodes",
                                         stages, DevicesOf(shape), context.pools.size()));
    return {};
  }
  if (std::ssize(plan.layers_per_stage) != stages) {
    settings.Refuse(kStages, fmt::format("{}; the layers of the stages are not known, which a "
                                         "cluster of {} pools needs",
                                         stages, context.pools.size()));
    return {};
  }
  if (context.names_pools) return placed;
  settings.Note(
      fmt::format("names no pools; its stages are read in the order of the cluster's "
                  "pools: {}",
                  fmt::join(places, ", ")));
  return placed;
}

void ListStages(SettingReader& settings, const std::vector<StagesOnPool>& placed,
                const std::vector<PoolOfCluster>& pools, PlanRequest& plan) {
  const int sequences = *plan.data_parallel * plan.micro_batch_size.value_or(1);
  const RecomputePlan recompute = plan.recompute.value_or(RecomputePlan{});
  const std::vector<int>& counts = recompute.layer_counts;
  if (!counts.empty() && counts.size() != plan.layers_per_stage.size()) {
    settings.Refuse("recompute-num-layers-per-stage-micro-batch",
                    fmt::format("rows of {} stages; the plan has {}", counts.size(),
                                plan.layers_per_stage.size()));
    return;
  }
  for (const StagesOnPool& row : placed) {
    const int devices = DevicesOf(row);
    const int of_node = pools[row.pool].devices_per_node;
    for (int i = 0; i < row.stage_count; ++i) {
      const std::size_t stage = plan.stages.size();
      const int layers = plan.layers_per_stage[stage];
      plan.stages.push_back({.pool = pools[row.pool].name,
                             .node_count = std::max(1, devices / of_node),
                             .tensor_parallel = row.tensor,
                             .data_parallel = row.data,
                             .context_parallel = row.context,
                             .layer_count = layers,
                             .micro_batch_size = sequences / row.data,
                             .recompute = RecomputeOfStage(recompute, stage, layers),
                             .device_count = devices < of_node ? devices : 0});
    }
  }
  plan.tensor_parallel.reset();
  plan.data_parallel.reset();
  plan.context_parallel.reset();
  plan.micro_batch_size.reset();
  plan.recompute.reset();
  plan.layers_per_stage.clear();
}

}  // namespace meshwright
