#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/megatron_stages.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

using ContextWord = std::pair<std::string_view, ContextParallelKind>;
constexpr ContextWord kContextWords[] = {{"p2p", ContextParallelKind::kRing},
                                         {"a2a", ContextParallelKind::kUlysses},
                                         {"all_gather", ContextParallelKind::kAllGather},
                                         {"allgather", ContextParallelKind::kAllGather},
                                         {"a2a+p2p", ContextParallelKind::kHybrid}};
constexpr ContextWord kMindSpeedContextWords[] = {
    {"megatron_cp_algo", ContextParallelKind::kRing},
    {"ulysses_cp_algo", ContextParallelKind::kUlysses},
    {"hybrid_cp_algo", ContextParallelKind::kHybrid}};
constexpr std::pair<std::string_view, int> kShardingWords[] = {
    {"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
constexpr std::pair<std::string_view, Schedule> kScheduleWords[] = {
    {"dualpipev", Schedule::kDualpipeV}};
constexpr std::pair<std::string_view, RecomputeGranularity> kGranularityWords[] = {
    {"selective", RecomputeGranularity::kSelective}, {"full", RecomputeGranularity::kFull}};
constexpr std::string_view kDegrees =
    "tensor-model-parallel-size x pipeline-model-parallel-size x context-parallel-size";

void ReadDegrees(SettingReader& settings, PlanRequest& plan) {
  plan.tensor_parallel = settings.Degree("tensor-model-parallel-size");
  plan.pipeline_parallel = settings.Degree("pipeline-model-parallel-size");
  plan.context_parallel = settings.Degree("context-parallel-size");
  // validate_args switches it off if there is nothing to split.
  plan.sequence_parallel = settings.Switch("sequence-parallel") && plan.tensor_parallel > 1;
  const auto kind = settings.Choice<ContextParallelKind>("cp-comm-type", kContextWords);
  const auto other =
      settings.Choice<ContextParallelKind>("context-parallel-algo", kMindSpeedContextWords);
  plan.context_parallel_kind = other.value_or(kind.value_or(ContextParallelKind::kRing));
  // Groups of the exchange of heads: that of the node, as the plan has it.
  settings.List("hierarchical-context-parallel-sizes");
  settings.List("ulysses-degree-in-cp");
  plan.rank_order =
      settings.Switch("use-tp-pp-dp-mapping") ? RankOrder::kTpCpEpPpDp : RankOrder::kTpCpEpDpPp;
  plan.micro_batch_size = settings.Int("micro-batch-size");
  if (!plan.micro_batch_size.has_value()) {
    settings.Refuse("micro-batch-size", "is not stated; Megatron has no default for it");
  }
}

// Splits of experts: in MindSpeed over tensor parallelism too, in Megatron-Core of their own.
void ReadExperts(SettingReader& settings, const ReaderContext& context, const ImportedJob& job,
                 PlanRequest& plan) {
  const ModelSpec* model = ModelOf(context, job);
  const bool has_experts = model != nullptr && model->moe.has_value();
  const int experts = settings.Degree("expert-model-parallel-size");
  const bool states_tensor = settings.IsSet("expert-tensor-parallel-size");
  const int stated_tensor = settings.Degree("expert-tensor-parallel-size");
  const int tensor = states_tensor ? stated_tensor : *plan.tensor_parallel;
  const bool extends = settings.Switch("moe-tp-extend-ep");
  if (!has_experts) {
    if (experts > 1) {
      settings.Refuse("expert-model-parallel-size",
                      fmt::format("{}; the model has no experts", experts));
    }
    return;
  }
  plan.expert_parallel = extends ? experts * *plan.tensor_parallel : experts;
  plan.expert_tensor_parallel = extends ? 1 : tensor;
}

void ReadSharding(SettingReader& settings, PlanRequest& plan) {
  const bool is_fsdp = settings.Switch("use-megatron-fsdp") || settings.Switch("use-custom-fsdp") ||
                       settings.Switch("use-torch-fsdp2");
  const auto strategy = settings.Choice<int>("data-parallel-sharding-strategy", kShardingWords);
  const bool is_distributed = settings.Switch("use-distributed-optimizer");
  plan.zero_stage = is_distributed ? 1 : 0;
  // Without a strategy Megatron's FSDP shards nothing; PyTorch's shards everything.
  if (is_fsdp) plan.zero_stage = strategy.value_or(settings.Has("use-torch-fsdp2") ? 3 : 0);
  // DeepSpeed's, in scripts of Megatron-DeepSpeed.
  if (const auto stage = settings.Int("zero-stage")) plan.zero_stage = *stage;
  settings.Switch("use-precision-aware-optimizer");
  if (settings.Switch("optimizer-cpu-offload")) {
    plan.optimizer_offload_ratio = settings.Number("optimizer-offload-fraction").value_or(1.0);
  } else {
    settings.Number("optimizer-offload-fraction");
  }
}

// The group is known once the number of devices is.
void ReadShardingGroup(SettingReader& settings, PlanRequest& plan) {
  const int groups = settings.Int("num-distributed-optimizer-instances").value_or(1);
  if (groups == 1) return;
  if (!plan.data_parallel.has_value()) {
    settings.Refuse("num-distributed-optimizer-instances",
                    fmt::format("{}; the number of devices is not known", groups));
    return;
  }
  const int replicas = *plan.data_parallel * *plan.context_parallel;
  if (groups < 1 || replicas % groups != 0) {
    settings.Refuse(
        "num-distributed-optimizer-instances",
        fmt::format("{}; must divide data x context parallelism = {}", groups, replicas));
    return;
  }
  plan.zero_group_size = replicas / groups;
}

std::vector<int> Equal(int stages, int layers) {
  return std::vector<int>(static_cast<std::size_t>(stages), layers / stages);
}

// Layers of the stages by the number of layers in the first and the last one.
void ReadEndStages(SettingReader& settings, int layers, PlanRequest& plan) {
  const auto first = settings.Int("decoder-first-pipeline-num-layers");
  const auto last = settings.Int("decoder-last-pipeline-num-layers");
  if (!first.has_value() && !last.has_value()) return;
  const int stages = *plan.pipeline_parallel;
  const int middle = stages - (first.has_value() ? 1 : 0) - (last.has_value() ? 1 : 0);
  const int rest = layers - first.value_or(0) - last.value_or(0);
  const bool divides = middle > 0 ? rest % middle == 0 && rest >= 0 : rest == 0;
  if (!divides) {
    settings.Refuse(first.has_value() ? "decoder-first-pipeline-num-layers"
                                      : "decoder-last-pipeline-num-layers",
                    fmt::format("{}; the other {} stages cannot share {} layers evenly",
                                first.value_or(last.value_or(0)), middle, rest));
    return;
  }
  plan.layers_per_stage = Equal(std::max(1, middle), std::max(rest, 0));
  plan.layers_per_stage.resize(static_cast<std::size_t>(stages), middle > 0 ? rest / middle : 0);
  if (first.has_value()) plan.layers_per_stage.front() = *first;
  if (last.has_value()) plan.layers_per_stage.back() = *last;
}

// A layout states the virtual stages too.
void ReadLayout(SettingReader& settings, PlanRequest& plan) {
  const auto text = settings.Text("pipeline-model-parallel-layout");
  if (!text.has_value()) return;
  const auto parts = LayoutLayers(*text);
  const auto stages = static_cast<std::size_t>(*plan.pipeline_parallel);
  if (!parts.has_value() || parts->size() % stages != 0) {
    settings.Refuse("pipeline-model-parallel-layout",
                    fmt::format("{}; must be a layout of a multiple of {} parts", *text, stages));
    return;
  }
  plan.virtual_pipeline = static_cast<int>(parts->size() / stages);
  plan.layers_per_stage.assign(stages, 0);
  for (std::size_t i = 0; i < parts->size(); ++i) plan.layers_per_stage[i % stages] += (*parts)[i];
}

void ReadEqualStages(SettingReader& settings, int layers, PlanRequest& plan) {
  const bool counts_embedding = settings.Switch("account-for-embedding-in-pipeline-split");
  const bool counts_loss = settings.Switch("account-for-loss-in-pipeline-split");
  const int counted = layers + (counts_embedding ? 1 : 0) + (counts_loss ? 1 : 0);
  const int stages = *plan.pipeline_parallel;
  if (stages < 1 || counted % stages != 0) {
    settings.Refuse("pipeline-model-parallel-size",
                    fmt::format("{}; Megatron wants a divisor of {} layers", stages, counted));
    return;
  }
  plan.layers_per_stage = Equal(stages, counted);
  plan.layers_per_stage.front() -= counts_embedding ? 1 : 0;
  plan.layers_per_stage.back() -= counts_loss ? 1 : 0;
  const auto of_chunk = settings.Int("num-layers-per-virtual-pipeline-stage");
  if (!of_chunk.has_value()) return;
  const int of_stage = counted / stages;
  if (*of_chunk < 1 || of_stage % *of_chunk != 0) {
    settings.Refuse("num-layers-per-virtual-pipeline-stage",
                    fmt::format("{}; must divide the {} layers of a stage", *of_chunk, of_stage));
    return;
  }
  plan.virtual_pipeline = of_stage / *of_chunk;
}

// MindSpeed pads a model with layers that do nothing, so that all stages have the same number.
void RemoveIdleLayers(SettingReader& settings, const std::vector<int>& idle, int layers,
                      PlanRequest& plan) {
  const int stages = *plan.pipeline_parallel;
  const bool goes_back = plan.schedule == Schedule::kDualpipeV;
  const int chunks = stages * (goes_back ? 2 : *plan.virtual_pipeline);
  if (idle.empty() || plan.layers_per_stage.empty()) return;
  for (const int layer : idle) {
    if (layer < 0 || layer >= layers || layers % chunks != 0) {
      settings.Refuse("noop-layers", fmt::format("{}; the model has {} layers in {} parts", layer,
                                                 layers, chunks));
      return;
    }
    const int chunk = layer / (layers / chunks);
    const bool is_back = goes_back && chunk >= stages;
    const int stage = is_back ? 2 * stages - 1 - chunk : chunk % stages;
    --plan.layers_per_stage[static_cast<std::size_t>(stage)];
  }
}

// Takes settings that do not divide the layers: a configuration may state them as null or false.
void TakeUnusedSplit(SettingReader& settings, bool has_list) {
  for (const char* key :
       {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"}) {
    if (!settings.IsSet(key)) settings.Int(key);
  }
  for (const char* key :
       {"account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split"}) {
    if (settings.Switch(key) && has_list) {
      settings.Refuse(key, "true; stated beside the layers of the stages");
    }
  }
}

void ReadStages(SettingReader& settings, const ModelSpec* model, bool splits_itself,
                PlanRequest& plan) {
  plan.virtual_pipeline = settings.Int("num-virtual-stages-per-pipeline-rank").value_or(1);
  const std::vector<int> listed = settings.Ints("num-layer-list");
  const bool has_list = !listed.empty() || settings.IsSet("decoder-first-pipeline-num-layers") ||
                        settings.IsSet("decoder-last-pipeline-num-layers") ||
                        settings.IsSet("pipeline-model-parallel-layout");
  const std::vector<int> idle = settings.Ints("noop-layers");
  const int real = model == nullptr ? 0 : model->layer_count;
  const int layers = real == 0 ? 0 : real + static_cast<int>(idle.size());
  if (*plan.pipeline_parallel > 1 && layers > 0) {
    plan.layers_per_stage = listed;
    ReadEndStages(settings, layers, plan);
    if (!has_list && !splits_itself) ReadEqualStages(settings, layers, plan);
    if (has_list) TakeUnusedSplit(settings, has_list);
  } else {
    TakeUnusedSplit(settings, /*has_list=*/false);
  }
  ReadLayout(settings, plan);
  const bool is_interleaved = *plan.virtual_pipeline > 1 && *plan.pipeline_parallel > 1;
  if (!is_interleaved) plan.virtual_pipeline = 1;
  plan.schedule = is_interleaved ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
  const auto schedule = settings.Choice<Schedule>("schedules-method", kScheduleWords);
  if (schedule.has_value() && *plan.pipeline_parallel > 1) plan.schedule = *schedule;
  // FlagScale's later name of the same.
  if (settings.Switch("use-dualpipev")) plan.schedule = Schedule::kDualpipeV;
  RemoveIdleLayers(settings, idle, layers, plan);
  const int sum = std::accumulate(plan.layers_per_stage.begin(), plan.layers_per_stage.end(), 0);
  if (real > 0 && !plan.layers_per_stage.empty() && sum != real) {
    settings.Refuse("num-layers", fmt::format("{}; the stages have {} layers together", real, sum));
  }
}

// FlagScale states recomputation in rows of {stages, micro-batches, value}.
void ReadRecomputeByStage(SettingReader& settings, PlanRequest& plan) {
  const std::string key = "recompute-num-layers-per-stage-micro-batch";
  const auto text = settings.Text(key);
  settings.Text("recompute-granularity-per-stage-micro-batch");
  settings.Text("recompute-method-per-stage-micro-batch");
  if (!text.has_value()) return;
  const auto rows = nlohmann::json::parse(*text, nullptr, false);
  std::vector<int> counts;
  for (const auto& row : rows) {
    const bool is_simple = row.is_array() && row.size() == 3 && row[0].is_number_integer() &&
                           row[2].is_number_integer() && row[0] > 0 && row[0] < 1000;
    if (!is_simple) {
      settings.Refuse(key, *text +
                               "; read are rows of stages, micro-batches and a number of "
                               "layers that all micro-batches share");
      return;
    }
    counts.insert(counts.end(), row[0].get<std::size_t>(), row[2].get<int>());
  }
  plan.recompute =
      RecomputePlan{.granularity = RecomputeGranularity::kFull, .layer_counts = std::move(counts)};
}

// The first `of_chunk` layers of each virtual stage, or of each stage as MindSpeed counts them.
RecomputePlan BlockRecompute(SettingReader& settings, int of_chunk, const PlanRequest& plan) {
  const bool by_stage = settings.Switch("enable-recompute-layers-per-pp-rank");
  const int count = of_chunk * (by_stage ? 1 : *plan.virtual_pipeline);
  RecomputePlan recompute = EveryLayer();
  const std::vector<int>& layers = plan.layers_per_stage;
  recompute.layer_counts.assign(static_cast<std::size_t>(*plan.pipeline_parallel), count);
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    recompute.layer_counts[stage] = std::min(count, layers[stage]);
  }
  return recompute;
}

void ReadRecompute(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  auto granularity =
      settings.Choice<RecomputeGranularity>("recompute-granularity", kGranularityWords);
  if (settings.Switch("recompute-activations")) granularity = RecomputeGranularity::kSelective;
  // Versions before 2022, and Megatron-DeepSpeed.
  const bool is_old =
      settings.Switch("checkpoint-activations") || settings.IsSet("activations-checkpoint-method");
  settings.Switch("deepspeed-activation-checkpointing");
  std::string method = settings.Text("recompute-method").value_or("");
  if (const auto old = settings.Text("activations-checkpoint-method")) method = *old;
  const auto old_layers = settings.Int("activations-checkpoint-num-layers");
  const auto group = settings.Int("checkpoint-num-layers");
  const int layers = settings.Int("recompute-num-layers").value_or(old_layers.value_or(1));
  const std::vector<std::string> modules = settings.List("recompute-modules");
  plan.recompute = RecomputePlan{};
  if (is_old) granularity = RecomputeGranularity::kFull;
  if (granularity == RecomputeGranularity::kSelective) {
    plan.recompute = RecomputePlan{.granularity = *granularity, .modules = modules};
  } else if (granularity == RecomputeGranularity::kFull && method == "block") {
    PlanRequest split = plan;
    if (split.layers_per_stage.empty() && *plan.pipeline_parallel == 1 && model != nullptr) {
      split.layers_per_stage = {model->layer_count};
    }
    plan.recompute = BlockRecompute(settings, layers, split);
  } else if (granularity == RecomputeGranularity::kFull) {
    plan.recompute = EveryLayer();
    if (layers > 1 || group.value_or(1) > 1) {
      settings.Note(
          fmt::format("recompute-num-layers = {}: layers are recomputed in groups, and "
                      "are read as recomputed one by one",
                      std::max(layers, group.value_or(1))));
    }
  }
  settings.Switch("enable-recompute-layers-per-pp-rank");
  ReadRecomputeByStage(settings, plan);
}

void ReadOffload(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  const int layers = settings.Int("cpu-offloading-num-layers").value_or(0);
  if (layers == 0 || model == nullptr || model->layer_count == 0) return;
  plan.activation_offload_ratio = double{1.0 * layers} / model->layer_count;
}

// Micro-batches are whole numbers of every rank (megatron/core/num_microbatches_calculator.py).
void CheckBatch(SettingReader& settings, const ImportedJob& job) {
  const auto batch = job.workload.global_batch_size;
  const PlanRequest& plan = job.plan;
  if (!batch.has_value() || !plan.data_parallel.has_value() || !plan.micro_batch_size.has_value()) {
    return;
  }
  const long long of_step = 1LL * *plan.data_parallel * *plan.micro_batch_size;
  if (of_step > 0 && *batch % of_step == 0) return;
  settings.Refuse("global-batch-size",
                  fmt::format("{}; must be a multiple of micro-batch-size x data parallelism = {}",
                              *batch, of_step));
}

}  // namespace

void ReadMegatronPlan(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  const ModelSpec* model = ModelOf(context, job);
  ReadDegrees(settings, job.plan);
  std::vector<StagesOnPool> placed;
  const bool has_meshes = HasMeshes(settings);
  if (has_meshes) {
    placed = ReadMeshes(settings, context, job);
    if (placed.empty()) return;
  } else {
    ReadExperts(settings, context, job, job.plan);
  }
  ReadSharding(settings, job.plan);
  // DeepSpeed's pipelines split layers that the stages do not divide.
  const bool splits_itself = job.workload.framework_name == "megatron-deepspeed";
  if (!has_meshes) ReadStages(settings, model, splits_itself, job.plan);
  ReadRecompute(settings, model, job.plan);
  ReadOffload(settings, model, job.plan);
  if (!has_meshes) SetDataParallel(settings, context, kDegrees, job);
  ReadShardingGroup(settings, job.plan);
  if (!job.workload.global_batch_size.has_value() && job.plan.data_parallel.has_value() &&
      job.plan.micro_batch_size.has_value()) {
    // validate_args: without --global-batch-size there is one micro-batch.
    job.workload.global_batch_size = *job.plan.data_parallel * *job.plan.micro_batch_size;
  }
  CheckBatch(settings, job);
  if (!settings.violations().empty()) return;
  if (!has_meshes && context.pools.size() > 1) placed = PlaceOnPools(settings, context, job);
  if (!placed.empty()) ListStages(settings, placed, context.pools, job.plan);
}

void ReadMegatron(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  ReadMegatronModel(settings, job);
  ReadMegatronWorkload(settings, job);
  ReadMegatronPlan(settings, context, job);
}

}  // namespace meshwright
