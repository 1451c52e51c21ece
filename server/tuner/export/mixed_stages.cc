#include "server/tuner/export/mixed_stages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

bool HaveOneShape(const StagePlan& a, const StagePlan& b) {
  return a.tensor_parallel == b.tensor_parallel && a.data_parallel == b.data_parallel &&
         a.context_parallel == b.context_parallel && a.micro_batch_size == b.micro_batch_size;
}

// Returns the number of layers that a stage recomputes in full.
int FullLayers(const StagePlan& stage) {
  if (stage.recompute.granularity != RecomputeGranularity::kFull) return 0;
  const std::vector<int>& counts = stage.recompute.layer_counts;
  return counts.empty() ? stage.layer_count : std::min(counts.front(), stage.layer_count);
}

// Returns the number of further layers of which a stage recomputes the modules.
int SelectiveLayers(const StagePlan& stage) {
  if (stage.recompute.granularity == RecomputeGranularity::kSelective) return stage.layer_count;
  const std::vector<int>& counts = stage.recompute.selective_layer_counts;
  return counts.empty() ? 0 : counts.front();
}

// Returns the recomputation of all stages as plans without stages state it.
RecomputePlan RecomputeOfStages(const std::vector<StagePlan>& stages) {
  const auto is_of = [](RecomputeGranularity granularity) {
    return [granularity](const StagePlan& s) { return s.recompute.granularity == granularity; };
  };
  if (std::ranges::all_of(stages, is_of(RecomputeGranularity::kSelective))) {
    return stages.front().recompute;
  }
  if (std::ranges::all_of(stages, is_of(RecomputeGranularity::kNone))) return {};
  RecomputePlan recompute = {.granularity = RecomputeGranularity::kFull};
  std::vector<int> selective;
  for (const StagePlan& stage : stages) {
    recompute.layer_counts.push_back(FullLayers(stage));
    selective.push_back(SelectiveLayers(stage));
    if (recompute.modules.empty()) recompute.modules = stage.recompute.modules;
  }
  const bool has_selective = std::ranges::any_of(selective, [](int count) { return count > 0; });
  if (has_selective) recompute.selective_layer_counts = std::move(selective);
  if (std::ranges::equal(recompute.layer_counts, stages, std::equal_to<>(), std::identity(),
                         &StagePlan::layer_count)) {
    recompute.layer_counts.clear();  // every layer
  }
  return recompute;
}

}  // namespace

std::vector<StageMesh> MeshesOf(const ParallelPlan& plan) {
  std::vector<StageMesh> meshes;
  for (const StagePlan& stage : plan.stages) {
    const bool goes_on = !meshes.empty() && meshes.back().stage.pool == stage.pool &&
                         HaveOneShape(meshes.back().stage, stage);
    if (!goes_on) meshes.push_back({.stage = stage});
    ++meshes.back().stage_count;
  }
  return meshes;
}

ParallelPlan WithFlatFields(ParallelPlan plan) {
  const StagePlan& first = plan.stages.front();
  plan.tensor_parallel = first.tensor_parallel;
  plan.data_parallel = first.data_parallel;
  plan.context_parallel = first.context_parallel;
  plan.micro_batch_size = first.micro_batch_size;
  plan.pipeline_parallel = static_cast<int>(plan.stages.size());
  plan.layers_per_stage.clear();
  for (const StagePlan& stage : plan.stages) plan.layers_per_stage.push_back(stage.layer_count);
  plan.recompute = RecomputeOfStages(plan.stages);
  return plan;
}

void RefuseUnequalStages(const ParallelPlan& plan, std::string_view framework, Refusals& refusals) {
  const StagePlan& first = plan.stages.front();
  for (std::size_t i = 1; i < plan.stages.size(); ++i) {
    const auto compare = [&](std::string_view field, int own, int common) {
      if (own == common) return;
      refusals.Refuse(
          fmt::format("plan.stages[{}].{}", i, field),
          fmt::format("{}; {} gives all stages that of the first, {}", own, framework, common));
    };
    const StagePlan& stage = plan.stages[i];
    compare("tensor_parallel", stage.tensor_parallel, first.tensor_parallel);
    compare("data_parallel", stage.data_parallel, first.data_parallel);
    compare("context_parallel", stage.context_parallel, first.context_parallel);
    compare("micro_batch_size", stage.micro_batch_size, first.micro_batch_size);
  }
}

void RefuseUnequalModules(const ParallelPlan& plan, std::string_view framework,
                          Refusals& refusals) {
  const StagePlan* first = nullptr;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    if (SelectiveLayers(stage) == 0) continue;
    if (first == nullptr) first = &stage;
    if (stage.recompute.modules == first->recompute.modules) continue;
    refusals.Refuse(fmt::format("plan.stages[{}].recompute.modules", i),
                    fmt::format("[{}]; {} recomputes the same ones in all stages, [{}]",
                                fmt::join(stage.recompute.modules, ", "), framework,
                                fmt::join(first->recompute.modules, ", ")));
  }
}

void RefusePoolNames(const ParallelPlan& plan, Refusals& refusals) {
  const auto is_of_word = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  };
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const std::string& name = plan.stages[i].pool;
    if (!name.empty() && std::ranges::all_of(name, is_of_word)) continue;
    refusals.Refuse(
        fmt::format("plan.stages[{}].pool", i),
        fmt::format("\"{}\"; in launch files the name of a pool is one word of letters, "
                    "digits, '_', '-' and '.'",
                    name));
  }
}

void RefuseIdleDevices(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  std::map<std::string, int> nodes = PlaceStages(plan, problem.cluster).node_counts;
  for (const NodePool& pool : problem.cluster.pools) {
    int idle = nodes[pool.name] * pool.devices_per_node;
    for (const StagePlan& stage : plan.stages) {
      if (stage.pool == pool.name) idle -= DeviceCount(stage, pool);
    }
    if (idle == 0) continue;
    refusals.Refuse("plan.stages.device_count",
                    fmt::format("{} idle devices in the nodes of pool {}; FlagScale's stages fill "
                                "the nodes that they are parts of",
                                idle, pool.name));
  }
}

bool MixesVendors(const Problem& problem, const ParallelPlan& plan) {
  std::set<std::string> vendors;
  for (const NodePool& pool : problem.cluster.pools) {
    const bool is_used =
        std::ranges::find(plan.stages, pool.name, &StagePlan::pool) != plan.stages.end();
    if (is_used) vendors.insert(pool.chip.vendor);
  }
  return vendors.size() > 1;
}

}  // namespace meshwright
