#include "server/tuner/export/flagscale_meshes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/mixed_stages.h"
#include "server/tuner/export/text/command_line.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

bool HasOneEmbedding(const ModelSpec& model) {
  return model.tied_embeddings || model.mtp_layer_count > 0;
}

// Returns true if the first and the last stage share the embedding, and their optimizers shard its
// states over different numbers of ranks.
bool ReducesEmbeddingInParts(const Problem& problem, const ParallelPlan& plan) {
  return HasOneEmbedding(problem.model) && plan.zero_stage > 0 &&
         plan.stages.front().data_parallel != plan.stages.back().data_parallel;
}

// The legality rules know the other limits of meshes.
void RefuseSharding(const ParallelPlan& plan, FlagList& flags) {
  if (plan.zero_stage > 1) {
    flags.Refuse("plan.zero_stage",
                 fmt::format("{}; FlagScale's meshes shard the optimizer states only (ZeRO 1)",
                             plan.zero_stage));
  }
  if (plan.zero_stage == 0 || plan.zero_group_size == 0) return;
  for (const StagePlan& stage : plan.stages) {
    if (stage.data_parallel == plan.zero_group_size) continue;
    flags.Refuse("plan.zero_group_size",
                 fmt::format("{} with {} ranks of data parallelism; FlagScale's meshes have one "
                             "instance of the distributed optimizer",
                             plan.zero_group_size, stage.data_parallel));
    return;
  }
}

void RefuseEmbedding(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  if (problem.model.mtp_layer_count == 0) return;
  const StagePlan& first = plan.stages.front();
  const StagePlan& last = plan.stages.back();
  if (first.tensor_parallel != last.tensor_parallel) {
    flags.Refuse(
        "model.mtp_layer_count",
        fmt::format("{} with tensor parallelism {} on the first and {} on the last stage; "
                    "FlagScale's layers for multi-token prediction need equal ones",
                    problem.model.mtp_layer_count, first.tensor_parallel, last.tensor_parallel));
  }
  const bool divides = first.data_parallel % last.data_parallel == 0 ||
                       last.data_parallel % first.data_parallel == 0;
  if (plan.zero_stage > 0 && !divides) {
    flags.Refuse(
        "model.mtp_layer_count",
        fmt::format("{} with data parallelism {} on the first and {} on the last stage; "
                    "with a distributed optimizer one must divide the other",
                    problem.model.mtp_layer_count, first.data_parallel, last.data_parallel));
  }
}

}  // namespace

void AddMeshLayoutFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags) {
  RefuseSharding(plan, flags);
  RefuseEmbedding(problem, plan, flags);
  if (plan.schedule != Schedule::k1f1b) {
    flags.Refuse("plan.schedule",
                 fmt::format("{}; FlagScale's meshes run 1f1b", Word(plan.schedule)));
  }
  AddMegatronTensorFlags(problem, plan, flags);
  flags.Add("--pipeline-model-parallel-size", plan.pipeline_parallel);
  AddMegatronContextFlags(problem, plan, flags);
  AddMegatronExpertFlags(problem, plan, flags);
  AddMegatronBatchFlags(problem, plan, flags);
  ParallelPlan whole = plan;
  whole.zero_group_size = 0;  // refused unless it is the whole group
  AddMegatronShardingFlags(problem, whole, flags);
}

Json MeshSection(const Problem& problem, const ParallelPlan& plan) {
  Json sizes = Json::array();
  Json types = Json::array();
  Json expert_tensor = Json::array();
  for (const StageMesh& mesh : MeshesOf(plan)) {
    for (const int size : {mesh.stage.tensor_parallel, mesh.stage.context_parallel,
                           plan.expert_parallel, mesh.stage.data_parallel, mesh.stage_count}) {
      sizes.push_back(size);
    }
    types.push_back(mesh.stage.pool);
    expert_tensor.push_back(plan.expert_tensor_parallel);
  }
  Json section = {{"enable_hetero", true},
                  {"hetero_use_cpu_communication", MixesVendors(problem, plan)}};
  if (ReducesEmbeddingInParts(problem, plan)) {
    section["use_partial_reduce_for_shared_embedding"] = true;
  }
  section["hetero_pipeline_layer_split"] = plan.layers_per_stage;
  section["hetero_process_meshes"] = sizes;
  if (problem.model.moe.has_value()) {
    section["expert_tensor_parallel_size_per_process_mesh"] = expert_tensor;
  }
  section["hetero_device_types"] = types;
  section["hetero_current_device_type"] = types.front();
  return section;
}

std::string HostFileText(const Problem& problem, const ParallelPlan& plan) {
  std::string text;
  for (const NodeGroup& group : NodeGroupsOf(problem, plan)) {
    for (int node = 1; node <= group.node_count; ++node) {
      text += fmt::format("<host-{}-{}> slots={} type={}\n", group.pool, node,
                          group.devices_per_node, group.pool);
    }
  }
  return text;
}

std::vector<std::string> MeshLeftOut(const Problem& problem, const ParallelPlan& plan) {
  std::vector<std::string> left_out = {
      "in hostfile: the names of the hosts in place of the words in <>",
      "in config.yaml: experiment.envs.device_type_specific, the environment of each type of "
      "device"};
  if (MixesVendors(problem, plan)) {
    left_out.emplace_back(
        "in system: distributed_backend: flagcx in place of hetero_use_cpu_communication, if "
        "FlagCX is installed for the chips of all vendors");
  }
  return left_out;
}

}  // namespace meshwright
