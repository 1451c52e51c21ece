#include "tests/tuner/export/read_megatron.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "estimator/layer/layer_split.h"
#include "search_space/spec/choices.h"
#include "tests/tuner/export/read_config.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;
using Flags = std::map<std::string, std::string>;

int Number(const Flags& flags, const std::string& name, int fallback = 1) {
  const auto found = flags.find(name);
  return found == flags.end() ? fallback : std::stoi(found->second);
}

std::string Text(const Flags& flags, const std::string& name) {
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second;
}

// Reads "Et*3|t*4|...|t*3mL" for stages that each have `chunks` parts.
std::vector<int> LayoutStages(const std::string& layout, int stages, int& chunks) {
  std::vector<int> layers(static_cast<std::size_t>(stages), 0);
  std::istringstream parts(layout);
  int index = 0;
  for (std::string part; std::getline(parts, part, '|'); ++index) {
    std::smatch match;
    if (std::regex_search(part, match, std::regex("t\\*(\\d+)"))) {
      layers[static_cast<std::size_t>(index % stages)] += std::stoi(match[1]);
    }
  }
  chunks = index / stages;
  return layers;
}

std::vector<int> ListedStages(const std::string& list) {
  std::vector<int> layers;
  std::istringstream items(list);
  for (std::string item; std::getline(items, item, ',');) layers.push_back(std::stoi(item));
  return layers;
}

void ReadStages(const Flags& flags, int layers, ParallelPlan& plan) {
  const int stages = plan.pipeline_parallel;
  plan.virtual_pipeline = Number(flags, "--num-virtual-stages-per-pipeline-rank");
  const bool counts_embedding = flags.contains("--account-for-embedding-in-pipeline-split");
  const bool counts_loss = flags.contains("--account-for-loss-in-pipeline-split");
  const int counted = layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  plan.layers_per_stage = EqualStages(stages, counted);
  plan.layers_per_stage.front() -= counts_embedding ? 1 : 0;
  plan.layers_per_stage.back() -= counts_loss ? 1 : 0;
  if (flags.contains("--num-layers-per-virtual-pipeline-stage")) {
    plan.virtual_pipeline =
        layers / stages / Number(flags, "--num-layers-per-virtual-pipeline-stage");
  }
  const std::string layout = Text(flags, "--pipeline-model-parallel-layout");
  if (!layout.empty()) {
    plan.layers_per_stage = LayoutStages(layout, stages, plan.virtual_pipeline);
  }
  if (flags.contains("--num-layer-list")) {
    plan.layers_per_stage = ListedStages(Text(flags, "--num-layer-list"));
  }
  const int first = Number(flags, "--decoder-first-pipeline-num-layers", 0);
  const int last = Number(flags, "--decoder-last-pipeline-num-layers", 0);
  if (first + last > 0) {
    const int ends = (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
    std::ranges::fill(plan.layers_per_stage, (layers - first - last) / (stages - ends));
    if (first > 0) plan.layers_per_stage.front() = first;
    if (last > 0) plan.layers_per_stage.back() = last;
  }
  if (plan.virtual_pipeline > 1) plan.schedule = Schedule::kInterleaved1f1b;
}

RecomputePlan ReadRecompute(const Flags& flags, const ParallelPlan& plan) {
  const std::string granularity = Text(flags, "--recompute-granularity");
  if (granularity == "selective") return {.granularity = RecomputeGranularity::kSelective};
  if (granularity.empty()) return {};
  RecomputePlan recompute = EveryLayer(plan);
  if (Text(flags, "--recompute-method") == "uniform") return recompute;
  const bool by_stage = flags.contains("--enable-recompute-layers-per-pp-rank");
  const int chunks = by_stage ? 1 : plan.virtual_pipeline;
  const int count = chunks * Number(flags, "--recompute-num-layers");
  for (int& layers : recompute.layer_counts) layers = std::min(layers, count);
  return recompute;
}

ContextParallelKind ReadContextKind(const Flags& flags) {
  const std::string kind = Text(flags, "--cp-comm-type") + Text(flags, "--context-parallel-algo");
  if (kind == "a2a" || kind == "ulysses_cp_algo") return ContextParallelKind::kUlysses;
  if (kind == "allgather") return ContextParallelKind::kAllGather;
  if (kind == "a2a+p2p" || kind == "hybrid_cp_algo") return ContextParallelKind::kHybrid;
  return ContextParallelKind::kRing;
}

void ReadSharding(const Flags& flags, ParallelPlan& plan) {
  plan.zero_stage = flags.contains("--use-distributed-optimizer") ? 1 : 0;
  const std::string strategy = Text(flags, "--data-parallel-sharding-strategy");
  if (!strategy.empty()) plan.zero_stage = strategy == "optim_grads" ? 2 : 3;
  plan.zero_group_size = plan.data_parallel * plan.context_parallel /
                         Number(flags, "--num-distributed-optimizer-instances");
  if (flags.contains("--optimizer-cpu-offload")) {
    plan.optimizer_offload_ratio = std::stod(Text(flags, "--optimizer-offload-fraction"));
  }
}

// Experts of MindSpeed and of older versions have no tensor parallelism of their own.
void ReadExperts(const Flags& flags, ParallelPlan& plan) {
  if (!flags.contains("--num-experts")) return;
  plan.expert_parallel = Number(flags, "--expert-model-parallel-size");
  plan.expert_tensor_parallel =
      Number(flags, "--expert-tensor-parallel-size", plan.tensor_parallel);
  if (flags.contains("--moe-tp-extend-ep")) {
    plan.expert_parallel *= plan.tensor_parallel;
    plan.expert_tensor_parallel = 1;
  }
}

ParallelPlan ReadMegatronFlags(const Flags& flags, int processes, const Problem& problem) {
  ParallelPlan plan;
  plan.tensor_parallel = Number(flags, "--tensor-model-parallel-size");
  plan.sequence_parallel = flags.contains("--sequence-parallel");
  plan.pipeline_parallel = Number(flags, "--pipeline-model-parallel-size");
  plan.context_parallel = Number(flags, "--context-parallel-size");
  plan.context_parallel_kind = ReadContextKind(flags);
  plan.data_parallel =
      processes / plan.tensor_parallel / plan.pipeline_parallel / plan.context_parallel;
  plan.micro_batch_size = Number(flags, "--micro-batch-size");
  if (flags.contains("--use-tp-pp-dp-mapping")) plan.rank_order = RankOrder::kTpCpEpPpDp;
  ReadExperts(flags, plan);
  ReadSharding(flags, plan);
  ReadStages(flags, problem.model.layer_count, plan);
  plan.recompute = ReadRecompute(flags, plan);
  plan.activation_offload_ratio =
      Number(flags, "--cpu-offloading-num-layers", 0) / double{1.0 * problem.model.layer_count};
  return plan;
}

// Turns keys and values back into the flags that FlagScale passes to Megatron.
void Flatten(const Json& section, Flags& flags) {
  for (const auto& [key, value] : section.items()) {
    std::string name = "--" + key;
    std::ranges::replace(name, '_', '-');
    if (value.is_object()) {
      Flatten(value, flags);
    } else if (value.is_boolean()) {
      flags[name] = "";
    } else {
      flags[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
}

// Returns the flag that a field of a recipe stands for.
std::string FlagOf(std::string field) {
  if (field == "virtual_pipeline_model_parallel_size") {
    return "--num-virtual-stages-per-pipeline-rank";
  }
  if (field == "num_layers_in_first_pipeline_stage") return "--decoder-first-pipeline-num-layers";
  if (field == "num_layers_in_last_pipeline_stage") return "--decoder-last-pipeline-num-layers";
  std::ranges::replace(field, '_', '-');
  return "--" + field;
}

ParallelPlan ReadRecipe(Flags flags, int processes, const Problem& problem) {
  if (problem.model.moe.has_value()) flags["--num-experts"] = "8";
  return ReadMegatronFlags(flags, processes, problem);
}

}  // namespace

ParallelPlan ReadMegatronBridge(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadYaml(config.text);
  Flags flags;
  for (const auto& [section, fields] : file.items()) {
    if (!fields.is_object()) continue;
    for (const auto& [field, value] : fields.items()) {
      if (value == false) continue;
      flags[FlagOf(field)] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  const int processes =
      CommandNumber(config.command, "--nnodes") * CommandNumber(config.command, "--nproc-per-node");
  return ReadRecipe(std::move(flags), processes, problem);
}

ParallelPlan ReadNemo(const LaunchConfig& config, const Problem& problem) {
  Flags flags;
  for (const auto& [line, unused] : ReadFlags(config.text)) {
    const std::size_t equals = line.find('=');
    const std::string field = line.substr(0, equals).substr(line.substr(0, equals).rfind('.') + 1);
    const std::string value = line.substr(equals + 1);
    if (value != "False") flags[FlagOf(field)] = value;
  }
  return ReadRecipe(flags, Number(flags, "--num-nodes") * Number(flags, "--devices"), problem);
}

ParallelPlan ReadMegatron(const LaunchConfig& config, const Problem& problem) {
  const int processes =
      CommandNumber(config.command, "--nnodes") * CommandNumber(config.command, "--nproc-per-node");
  return ReadMegatronFlags(ReadFlags(config.text), processes, problem);
}

ParallelPlan ReadMegatronDeepSpeed(const LaunchConfig& config, const Problem& problem) {
  ParallelPlan plan = ReadMegatron(config, problem);
  const Json file = Json::parse(config.other_files.at(0).text);
  plan.zero_stage = file.at("zero_optimization").at("stage");
  plan.zero_group_size = 0;
  plan.layers_per_stage = SplitLayers(problem.model, problem.profile, plan.pipeline_parallel);
  if (ReadFlags(config.text).contains("--checkpoint-activations")) {
    plan.recompute = EveryLayer(plan);
  }
  return plan;
}

ParallelPlan ReadFlagScale(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadYaml(config.text);
  Flags flags;
  Flatten(file, flags);
  const std::string& experiment = config.other_files.at(0).text;
  const int processes =
      CommandNumber(experiment, "nnodes:") * CommandNumber(experiment, "nproc_per_node:");
  ParallelPlan plan = ReadMegatronFlags(flags, processes, problem);
  const Json& system = file.at("system");
  if (!system.contains("recompute_num_layers_per_stage_micro_batch")) return plan;
  plan.recompute.layer_counts.clear();
  for (const Json& row : system.at("recompute_num_layers_per_stage_micro_batch")) {
    plan.recompute.layer_counts.insert(plan.recompute.layer_counts.end(),
                                       row.at(0).get<std::size_t>(), row.at(2).get<int>());
  }
  return plan;
}

int CommandNumber(const std::string& command, const std::string& option) {
  std::smatch match;
  const std::regex pattern(option + "[ =](\\d+)");
  return std::regex_search(command, match, pattern) ? std::stoi(match[1]) : 1;
}

std::vector<int> EqualStages(int stages, int layers) {
  return std::vector<int>(static_cast<std::size_t>(stages), layers / stages);
}

RecomputePlan EveryLayer(const ParallelPlan& plan) {
  return {.granularity = RecomputeGranularity::kFull, .layer_counts = plan.layers_per_stage};
}

}  // namespace meshwright
