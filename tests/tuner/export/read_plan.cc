#include "tests/tuner/export/read_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "search_space/spec/choices.h"
#include "server/tuner/export/expressible.h"
#include "tests/tuner/export/read_config.h"
#include "tests/tuner/export/read_megatron.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

Schedule TorchSchedule(const std::string& name) {
  if (name == "GPipe") return Schedule::kGpipe;
  if (name == "Interleaved1F1B") return Schedule::kInterleaved1f1b;
  if (name == "ZBVZeroBubble") return Schedule::kZbV;
  if (name == "DualPipeV") return Schedule::kDualpipeV;
  return Schedule::k1f1b;
}

void ReadTorchtitanPipeline(const Json& parallelism, const Problem& problem, ParallelPlan& plan) {
  const int stages = plan.pipeline_parallel;
  const int layers = problem.model.layer_count;
  plan.layers_per_stage = EqualStages(stages, layers);
  if (stages == 1) return;
  plan.schedule = TorchSchedule(parallelism.at("pipeline_parallel_schedule"));
  plan.micro_batch_size = parallelism.at("pipeline_parallel_microbatch_size");
  int parts = 0;
  if (parallelism.contains("module_fqns_per_model_part")) {
    plan.layers_per_stage.assign(static_cast<std::size_t>(stages), 0);
    const bool is_v = plan.schedule == Schedule::kZbV || plan.schedule == Schedule::kDualpipeV;
    for (const Json& names : parallelism.at("module_fqns_per_model_part")) {
      const int turn = parts++ / stages;
      const int place = (parts - 1) % stages;
      const int stage = is_v && turn == 1 ? stages - 1 - place : place;
      for (const std::string name : names) {
        plan.layers_per_stage[static_cast<std::size_t>(stage)] += name.starts_with("layers.");
      }
    }
  } else {
    parts = layers / parallelism.at("pipeline_parallel_layers_per_stage").get<int>();
  }
  if (plan.schedule == Schedule::kInterleaved1f1b) plan.virtual_pipeline = parts / stages;
}

RecomputePlan ReadTorchtitanRecompute(const Json& checkpoint, const ParallelPlan& plan) {
  if (checkpoint.at("mode") == "none") return {};
  if (checkpoint.at("mode") == "full") return EveryLayer(plan);
  const std::string option = checkpoint.at("selective_ac_option");
  if (option == "op") return {.granularity = RecomputeGranularity::kSelective};
  RecomputePlan recompute = EveryLayer(plan);
  for (int& count : recompute.layer_counts) count /= std::stoi(option);
  return recompute;
}

ParallelPlan ReadTorchtitan(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadToml(config.text);
  const Json& parallelism = file.at("parallelism");
  ParallelPlan plan;
  plan.tensor_parallel = parallelism.at("tensor_parallel_degree");
  plan.sequence_parallel = plan.tensor_parallel > 1;
  plan.pipeline_parallel = parallelism.at("pipeline_parallel_degree");
  plan.context_parallel = parallelism.at("context_parallel_degree");
  if (plan.context_parallel > 1 &&
      parallelism.at("context_parallel_rotate_method") == "allgather") {
    plan.context_parallel_kind = ContextParallelKind::kAllGather;
  }
  const int shards = parallelism.at("data_parallel_shard_degree");
  plan.data_parallel = shards * parallelism.at("data_parallel_replicate_degree").get<int>();
  if (parallelism.contains("fsdp_reshard_after_forward")) {
    plan.zero_stage = parallelism.at("fsdp_reshard_after_forward") == "always" ? 3 : 2;
    plan.zero_group_size = shards * plan.context_parallel;
  }
  plan.expert_parallel = parallelism.value("expert_parallel_degree", 1);
  plan.expert_tensor_parallel = parallelism.value("expert_tensor_parallel_degree", 1);
  plan.micro_batch_size = file.at("training").at("local_batch_size");
  ReadTorchtitanPipeline(parallelism, problem, plan);
  plan.recompute = ReadTorchtitanRecompute(file.at("activation_checkpoint"), plan);
  return plan;
}

ParallelPlan ReadPyTorchFsdp(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadYaml(config.text);
  ParallelPlan plan;
  plan.layers_per_stage = {problem.model.layer_count};
  plan.data_parallel = file.at("num_processes");
  if (file.at("distributed_type") == "FSDP") {
    const Json& parallelism = file.at("parallelism_config");
    const int shards = parallelism.at("parallelism_config_dp_shard_size");
    plan.tensor_parallel = parallelism.at("parallelism_config_tp_size");
    plan.context_parallel = parallelism.at("parallelism_config_cp_size");
    plan.data_parallel = shards * parallelism.at("parallelism_config_dp_replicate_size").get<int>();
    plan.zero_group_size = shards * plan.context_parallel;
    if (parallelism.value("parallelism_config_cp_comm_strategy", "") == "allgather") {
      plan.context_parallel_kind = ContextParallelKind::kAllGather;
    }
    const Json& fsdp = file.at("fsdp_config");
    plan.zero_stage = fsdp.at("fsdp_reshard_after_forward") ? 3 : 2;
    if (fsdp.at("fsdp_activation_checkpointing")) plan.recompute = EveryLayer(plan);
  }
  const int accumulation = CommandNumber(config.command, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS");
  plan.micro_batch_size = problem.workload.global_batch_size / plan.data_parallel / accumulation;
  return plan;
}

ParallelPlan ReadDeepSpeed(const LaunchConfig& config, const Problem& problem) {
  const Json file = Json::parse(config.text);
  ParallelPlan plan;
  plan.micro_batch_size = file.at("train_micro_batch_size_per_gpu");
  plan.data_parallel = file.at("train_batch_size").get<int>() / plan.micro_batch_size /
                       file.at("gradient_accumulation_steps").get<int>();
  if (file.contains("tensor_parallel")) {
    plan.tensor_parallel = file.at("tensor_parallel").at("autotp_size");
  }
  plan.context_parallel = file.value("sequence_parallel_size", 1);
  if (plan.context_parallel > 1) plan.context_parallel_kind = ContextParallelKind::kUlysses;
  const Json pipeline = file.value("pipeline", Json::object());
  plan.pipeline_parallel = pipeline.value("stages", 1);
  plan.layers_per_stage = LayersPerStage(plan, problem.model, problem.profile);
  if (pipeline.value("activation_checkpoint_interval", 0) == 1) plan.recompute = EveryLayer(plan);
  const Json& zero = file.at("zero_optimization");
  plan.zero_stage = zero.at("stage");
  plan.zero_group_size = zero.value("mics_shard_size", 0);
  if (zero.contains("offload_optimizer")) {
    plan.optimizer_offload_ratio = zero.at("offload_optimizer").value("ratio", 1.0);
  }
  return plan;
}

ParallelPlan ReadNanotron(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadYaml(config.text);
  const Json& parallelism = file.at("parallelism");
  ParallelPlan plan;
  plan.tensor_parallel = parallelism.at("tp");
  plan.sequence_parallel = parallelism.at("tp_mode") == "REDUCE_SCATTER";
  plan.pipeline_parallel = parallelism.at("pp");
  plan.schedule = parallelism.at("pp_engine") == "afab" ? Schedule::kGpipe : Schedule::k1f1b;
  plan.data_parallel = parallelism.at("dp");
  plan.context_parallel = parallelism.value("context_parallel_size", 1);
  plan.zero_stage = file.at("optimizer").at("zero_stage");
  plan.micro_batch_size = file.at("tokens").at("micro_batch_size");
  plan.layers_per_stage = SplitLayers(problem.model, problem.profile, plan.pipeline_parallel);
  if (parallelism.value("recompute_layer", false)) plan.recompute = EveryLayer(plan);
  return plan;
}

RecomputePlan ReadPaddleRecompute(const Json& file, const ParallelPlan& plan) {
  if (file.at("recompute") == false) return {};
  if (file.at("recompute_granularity") == "core_attn") {
    return {.granularity = RecomputeGranularity::kSelective};
  }
  RecomputePlan recompute = EveryLayer(plan);
  for (const int layer : file.value("no_recompute_layers", std::vector<int>())) {
    int stage = 0;
    for (int end = plan.layers_per_stage[0]; layer >= end;) {
      end += plan.layers_per_stage[static_cast<std::size_t>(++stage)];
    }
    --recompute.layer_counts[static_cast<std::size_t>(stage)];
  }
  return recompute;
}

ParallelPlan ReadPaddle(const LaunchConfig& config, const Problem& problem) {
  const Json file = Json::parse(config.text);
  ParallelPlan plan;
  plan.tensor_parallel = file.at("tensor_parallel_degree");
  plan.sequence_parallel = file.at("sequence_parallel");
  plan.pipeline_parallel = file.at("pipeline_parallel_degree");
  plan.virtual_pipeline = file.at("virtual_pp_degree");
  if (plan.virtual_pipeline > 1) plan.schedule = Schedule::kInterleaved1f1b;
  const int exchanged = file.at("sep_parallel_degree");
  plan.context_parallel = exchanged * file.at("context_parallel_degree").get<int>();
  if (exchanged > 1) plan.context_parallel_kind = ContextParallelKind::kUlysses;
  plan.micro_batch_size = file.at("per_device_train_batch_size");
  plan.data_parallel = problem.workload.global_batch_size / plan.micro_batch_size /
                       file.at("gradient_accumulation_steps").get<int>();
  const std::string sharding = file.at("sharding");
  if (!sharding.empty()) {
    plan.zero_stage = sharding.back() - '0';
    plan.zero_group_size = file.at("sharding_parallel_degree");
  }
  if (file.value("hybrid_parallel_topo_order", "") == "sharding_first") {
    plan.rank_order = RankOrder::kTpCpEpPpDp;
  }
  plan.expert_parallel = file.value("expert_parallel_degree", 1);
  if (problem.model.moe.has_value()) plan.expert_tensor_parallel = plan.tensor_parallel;
  plan.layers_per_stage = EqualStages(plan.pipeline_parallel, problem.model.layer_count);
  plan.recompute = ReadPaddleRecompute(file, plan);
  return plan;
}

ParallelPlan ReadMaxText(const LaunchConfig& config, const Problem& problem) {
  const Json file = ReadYaml(config.text);
  const auto axis = [&](const std::string& name) {
    return file.value("ici_" + name + "_parallelism", 1) *
           file.value("dcn_" + name + "_parallelism", 1);
  };
  ParallelPlan plan;
  plan.tensor_parallel = axis("tensor") * axis("tensor_sequence");
  plan.sequence_parallel = axis("tensor_sequence") > 1;
  plan.context_parallel = axis("context");
  plan.pipeline_parallel = axis("pipeline");
  plan.schedule = Schedule::kGpipe;
  plan.expert_parallel = axis("expert");
  if (problem.model.moe.has_value()) plan.expert_tensor_parallel = plan.tensor_parallel;
  const int shards = axis("fsdp") * axis("expert");
  plan.data_parallel = shards * axis("data");
  const bool is_whole = shards * plan.context_parallel == 1;
  plan.zero_stage = is_whole ? (file.at("shard_optimizer_over_data") ? 1 : 0) : 3;
  if (plan.zero_stage == 3) plan.zero_group_size = shards * plan.context_parallel;
  if (file.value("context_parallel_strategy", "") == "all_gather") {
    plan.context_parallel_kind = ContextParallelKind::kAllGather;
  }
  const int micro_batches = file.at("gradient_accumulation_steps").get<int>() *
                            file.value("num_pipeline_microbatches", 1);
  plan.micro_batch_size = problem.workload.global_batch_size / plan.data_parallel / micro_batches;
  plan.layers_per_stage = EqualStages(plan.pipeline_parallel, problem.model.layer_count);
  const std::string policy = file.at("remat_policy");
  if (policy == "minimal") plan.recompute.granularity = RecomputeGranularity::kSelective;
  if (policy == "full") plan.recompute = EveryLayer(plan);
  return plan;
}

struct Reader {
  std::string framework;
  ParallelPlan (*read)(const LaunchConfig& config, const Problem& problem);
};

const Reader kReaders[] = {{"megatron-core", ReadMegatron},
                           {"megatron-lm", ReadMegatron},
                           {"megatron-deepspeed", ReadMegatronDeepSpeed},
                           {"flagscale", ReadFlagScale},
                           {"mindspeed", ReadMegatron},
                           {"megatron-bridge", ReadMegatronBridge},
                           {"nemo", ReadNemo},
                           {"nanotron", ReadNanotron},
                           {"paddle", ReadPaddle},
                           {"maxtext", ReadMaxText},
                           {"torchtitan", ReadTorchtitan},
                           {"pytorch-fsdp", ReadPyTorchFsdp},
                           {"deepspeed", ReadDeepSpeed}};

RecomputePlan ExpressedRecompute(const ParallelPlan& plan, const Problem& problem) {
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      return {};
    case RecomputeForm::kSelective:
      return {.granularity = RecomputeGranularity::kSelective};
    case RecomputeForm::kEveryLayer:
      return EveryLayer(plan);
    case RecomputeForm::kSomeLayers:
      break;
  }
  RecomputePlan recompute = plan.recompute;
  for (std::size_t stage = 0; stage < recompute.layer_counts.size(); ++stage) {
    int& count = recompute.layer_counts[stage];
    count = std::min(count, plan.layers_per_stage[stage]);
  }
  return recompute;
}

// Removes what the training script states.
void ForgetScript(const std::string& framework, ParallelPlan& plan) {
  const bool is_every_layer = plan.recompute.layer_counts == plan.layers_per_stage &&
                              plan.recompute.granularity == RecomputeGranularity::kFull;
  if (framework == "pytorch-fsdp" && (plan.zero_stage == 0 || !is_every_layer)) {
    plan.recompute = {};
  }
  if (framework == "deepspeed") {
    plan.expert_parallel = 1;
    if (plan.pipeline_parallel == 1) plan.recompute = {};
  }
}

}  // namespace

ParallelPlan ReadPlan(const std::string& framework, const LaunchConfig& config,
                      const Problem& problem) {
  for (const Reader& reader : kReaders) {
    if (reader.framework == framework) {
      return ExpressedPlan(framework, reader.read(config, problem), problem);
    }
  }
  return {};
}

ParallelPlan ExpressedPlan(const std::string& framework, const ParallelPlan& plan,
                           const Problem& problem) {
  ParallelPlan expressed = plan;
  const int ranks = plan.data_parallel * plan.context_parallel;
  if (plan.tensor_parallel == 1) expressed.sequence_parallel = false;
  if (plan.context_parallel == 1) expressed.context_parallel_kind = ContextParallelKind::kRing;
  if (plan.pipeline_parallel == 1) {
    expressed.schedule = Schedule::k1f1b;
    expressed.rank_order = RankOrder::kTpCpEpDpPp;
  }
  if (ranks == 1) expressed.zero_stage = 0;
  if (expressed.zero_stage == 0 || plan.zero_group_size == ranks) expressed.zero_group_size = 0;
  expressed.layers_per_stage = LayersPerStage(plan, problem.model, problem.profile);
  expressed.recompute = ExpressedRecompute(expressed, problem);
  ForgetScript(framework, expressed);
  return expressed;
}

}  // namespace meshwright
