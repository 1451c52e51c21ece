#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/expressible.h"
#include "server/tuner/export/flagscale_meshes.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

// FlagScale passes every key of its `train` part to Megatron as the flag of that name, whichever
// section it is in. The sections are those of its examples.
constexpr std::array<std::string_view, 7> kModelPrefixes = {
    "num-", "hidden-size", "ffn-", "group-query-attention", "kv-channels", "moe-", "untie-",
};
constexpr std::array<std::string_view, 15> kModelFlags = {"swiglu",
                                                          "multi-latent-attention",
                                                          "q-lora-rank",
                                                          "kv-lora-rank",
                                                          "qk-head-dim",
                                                          "qk-pos-emb-head-dim",
                                                          "v-head-dim",
                                                          "window-size",
                                                          "window-attn-skip-freq",
                                                          "normalization",
                                                          "disable-bias-linear",
                                                          "seq-length",
                                                          "max-position-embeddings",
                                                          "attention-dropout",
                                                          "hidden-dropout"};
constexpr std::array<std::string_view, 6> kPrecisionFlags = {"bf16",
                                                             "fp16",
                                                             "fp8-format",
                                                             "fp8-recipe",
                                                             "accumulate-allreduce-grads-in-fp32",
                                                             "grad-reduce-in-bf16"};

bool IsOneOf(std::string_view name, auto names) {
  return std::ranges::find(names, name) != names.end();
}

bool IsOfModel(std::string_view name) {
  if (name == "num-distributed-optimizer-instances" ||
      name == "num-virtual-stages-per-pipeline-rank" || name == "moe-token-dispatcher-type" ||
      name == "moe-enable-deepep" || name == "moe-flex-dispatcher-backend" ||
      name == "moe-shared-expert-overlap") {
    return false;
  }
  const bool has_prefix = std::ranges::any_of(
      kModelPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
  return has_prefix || IsOneOf(name, kModelFlags) || name == "position-embedding-type" ||
         name == "mtp-num-layers" || name == "micro-batch-size" || name == "global-batch-size";
}

std::string KeyOf(std::string_view name) {
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

void SetFlag(const Flag& flag, Json& config) {
  const std::string_view name = std::string_view(flag.name).substr(2);
  if (IsOneOf(name, kPrecisionFlags)) {
    config["system"]["precision"][KeyOf(name)] = ValueOf(flag);
  } else if (name == "vocab-size") {
    config["data"]["tokenizer"][KeyOf(name)] = ValueOf(flag);
  } else if (name == "optimizer") {
    // A section has this name, so that the flag is inside of it.
    config["model"]["optimizer"]["optimizer"] = ValueOf(flag);
  } else {
    config[IsOfModel(name) ? "model" : "system"][KeyOf(name)] = ValueOf(flag);
  }
}

bool CountsDiffer(const std::vector<int>& counts) {
  return !counts.empty() && std::ranges::count(counts, counts.front()) != std::ssize(counts);
}

// Returns rows of {stages, micro-batches, value}, one for each stage.
Json StageRows(const std::vector<int>& values, int micro_batches) {
  Json rows = Json::array();
  for (const int value : values) rows.push_back({1, micro_batches, value});
  return rows;
}

// Stages that recompute different numbers of layers have settings of FlagScale's own
// (--recompute-granularity-per-stage-micro-batch and its siblings).
void SetRecomputeByStage(const Problem& problem, const ParallelPlan& plan, Json& config,
                         Refusals& refusals) {
  const std::vector<int>& counts = plan.recompute.layer_counts;
  const int micro_batches = MicroBatchCount(plan, problem.workload.global_batch_size);
  std::vector<int> is_recomputed;
  is_recomputed.reserve(counts.size());
  for (const int count : counts) is_recomputed.push_back(count > 0 ? 1 : 0);
  Json& system = config["system"];
  system["recompute_granularity"] = "full";
  system["recompute_method"] = "block";
  system["recompute_num_layers"] = *std::ranges::max_element(counts);
  system["recompute_granularity_per_stage_micro_batch"] = StageRows(is_recomputed, micro_batches);
  system["recompute_method_per_stage_micro_batch"] = StageRows(is_recomputed, micro_batches);
  system["recompute_num_layers_per_stage_micro_batch"] = StageRows(counts, micro_batches);
  if (plan.virtual_pipeline > 1) {
    refusals.Refuse("plan.recompute.layer_counts",
                    fmt::format("[{}] with {} virtual stages; FlagScale sets it by stage without "
                                "them",
                                fmt::join(counts, ", "), plan.virtual_pipeline));
  }
}

// `nodes` are the lines of the section `runner` that say where the job runs.
std::string ExperimentText(std::string_view nodes, bool has_one_connection) {
  return fmt::format(R"(defaults:
  - _self_
  - train: plan

experiment:
  exp_name: plan
  exp_dir: ./outputs
  task:
    type: train
    backend: megatron
    entrypoint: flagscale/train/train_gpt.py
  runner:
    backend: torchrun
{}{}
action: run

hydra:
  run:
    dir: ${{experiment.exp_dir}}/hydra
)",
                     nodes,
                     has_one_connection ? "  envs:\n    CUDA_DEVICE_MAX_CONNECTIONS: 1\n" : "");
}

std::vector<std::string> LeftOut(const ModelSpec& model) {
  std::vector<std::string> left_out = MegatronLeftOut(model);
  for (std::string& item : left_out) {
    // The keys are the flags with underscores.
    std::string keys;
    std::istringstream words(item);
    for (std::string word; words >> word;) {
      const bool is_flag = word.starts_with("--");
      keys += (keys.empty() ? "" : " ") + (is_flag ? KeyOf(word.substr(2)) : word);
    }
    item = keys;
  }
  return left_out;
}

// Sets the flags and the recomputation, however it is stated.
void SetPlan(const Problem& problem, const ParallelPlan& plan, FlagList& flags, Json& config) {
  const bool by_stage = plan.recompute.granularity == RecomputeGranularity::kFull &&
                        RecomputeFormOf(problem, plan) == RecomputeForm::kSomeLayers &&
                        plan.recompute.selective_layer_counts.empty() &&
                        CountsDiffer(plan.recompute.layer_counts);
  if (!by_stage) AddMegatronRecomputeFlags(problem, plan, flags);
  AddMegatronOffloadFlags(problem, plan, flags);
  AddMegatronJobFlags(problem, flags);
  for (const Flag& flag : flags.flags()) SetFlag(flag, config);
  if (by_stage) SetRecomputeByStage(problem, plan, config, flags.refusals());
}

LaunchConfig ConfigOf(const Json& config, std::string experiment) {
  return {.text = YamlText(config),
          .file_name = "conf/train/plan.yaml",
          .versions = "0.8 to 0.9",
          .command = "python run.py --config-path ./conf --config-name config action=run",
          .other_files = {{.name = "conf/config.yaml", .text = std::move(experiment)}}};
}

Json EmptyConfig() {
  return {{"system", Json::object()}, {"model", Json::object()}, {"data", Json::object()}};
}

// Each type of device starts as many processes a node as the host file has slots, and checkpoints
// of meshes have the old format (flagscale/train/arguments.py).
LaunchConfig ExportMeshes(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  FlagList flags(refusals);
  AddMeshLayoutFlags(problem, plan, flags);
  Json config = EmptyConfig();
  SetPlan(problem, plan, flags, config);
  config["system"]["hetero"] = MeshSection(problem, plan);
  config["system"]["checkpoint"] = {{"ckpt_format", "torch"}};
  const std::string nodes =
      fmt::format("    nnodes: {}\n    hostfile: ./conf/hostfile\n    rdzv_backend: static\n",
                  JobSizeOf(problem, plan).nodes);
  LaunchConfig launch = ConfigOf(config, ExperimentText(nodes, plan.zero_stage <= 1));
  launch.left_out = LeftOut(problem.model);
  for (std::string& item : MeshLeftOut(problem, plan)) launch.left_out.push_back(std::move(item));
  launch.other_files.push_back({.name = "conf/hostfile", .text = HostFileText(problem, plan)});
  return launch;
}

}  // namespace

LaunchConfig ExportFlagScale(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  if (!plan.stages.empty()) return ExportMeshes(problem, plan, refusals);
  FlagList flags(refusals);
  AddMegatronLayoutFlags(problem, plan, flags);
  Json config = EmptyConfig();
  SetPlan(problem, plan, flags, config);
  const JobSize size = JobSizeOf(problem, plan);
  const std::string nodes =
      fmt::format("    nnodes: {}\n    nproc_per_node: {}\n", size.nodes, size.processes_per_node);
  LaunchConfig launch = ConfigOf(config, ExperimentText(nodes, plan.zero_stage <= 1));
  launch.left_out = LeftOut(problem.model);
  launch.left_out.emplace_back(
      "in config.yaml: experiment.runner.hostfile and rdzv_endpoint, if there "
      "are several nodes");
  return launch;
}

}  // namespace meshwright
