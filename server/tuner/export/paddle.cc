#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/exporters.h"
#include "server/tuner/export/expressible.h"
#include "server/tuner/export/plan_words.h"
#include "server/tuner/export/text/command_line.h"
#include "server/tuner/export/text/config_text.h"
#include "server/tuner/export/text/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using Json = nlohmann::ordered_json;

constexpr Schedule kSchedules[] = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
constexpr ContextParallelKind kContextKinds[] = {ContextParallelKind::kRing,
                                                 ContextParallelKind::kUlysses};
constexpr int kZeroStages[] = {0, 1, 2, 3};
constexpr RecomputeForm kRecompute[] = {RecomputeForm::kNothing, RecomputeForm::kSelective,
                                        RecomputeForm::kEveryLayer, RecomputeForm::kSomeLayers};
constexpr Precision kPrecisions[] = {Precision::kBf16, Precision::kFp16, Precision::kFp32};
constexpr GradientDtype kGradients[] = {GradientDtype::kFp32, GradientDtype::kBf16,
                                        GradientDtype::kFp16};
constexpr Optimizer kOptimizers[] = {Optimizer::kAdam};
constexpr AttentionKernel kAttention[] = {AttentionKernel::kUnfused, AttentionKernel::kFlash2};
constexpr MlpKind kMlps[] = {MlpKind::kGelu, MlpKind::kSwiglu};

// The sizes of the model are in the model's own file.
constexpr Expressible kExpressible = {.framework = "PaddleNLP",
                                      .schedules = kSchedules,
                                      .context_parallel_kinds = kContextKinds,
                                      .expert_parallel = true,
                                      .expert_tensor_parallel = true,
                                      .zero_stages = kZeroStages,
                                      .zero_groups = true,
                                      .pipeline_inside = true,
                                      .recompute = kRecompute,
                                      .precisions = kPrecisions,
                                      .gradient_dtypes = kGradients,
                                      .optimizers = kOptimizers,
                                      .attention_kernels = kAttention,
                                      .tensor_overlap = true,
                                      .mlps = kMlps,
                                      .layer_norm = true,
                                      .experts = true,
                                      .latent_attention = true};

// Ranks are numbered in the order data, pipeline, sharding, tensor, with the last one fastest
// ("pp_first"), or data, sharding, pipeline, tensor ("sharding_first"). Ranks of plain data
// parallelism are always outside of pipelines.
void SetSharding(const Problem& problem, const ParallelPlan& plan, Json& config,
                 Refusals& refusals) {
  const int group =
      plan.zero_group_size > 0 ? plan.zero_group_size : plan.data_parallel * plan.context_parallel;
  const int shards = plan.zero_stage == 0 ? 1 : group;
  config["sharding"] = plan.zero_stage == 0 ? "" : fmt::format("stage{}", plan.zero_stage);
  config["sharding_parallel_degree"] = shards;
  if (plan.data_parallel % shards != 0) {
    refusals.Refuse("plan.zero_group_size",
                    fmt::format("{}; PaddleNLP shards over ranks of data parallelism, of which "
                                "there are {}",
                                group, plan.data_parallel));
  }
  if (plan.pipeline_parallel == 1) return;
  const bool is_inside = plan.rank_order == RankOrder::kTpCpEpPpDp;
  config["hybrid_parallel_topo_order"] = is_inside ? "sharding_first" : "pp_first";
  if (!is_inside && plan.data_parallel > shards) {
    refusals.Refuse("plan.rank_order",
                    fmt::format("{} with ranks that are not sharded; PaddleNLP numbers pipelines "
                                "inside of them",
                                Word(plan.rank_order)));
  }
  if (plan.zero_stage >= 2) {
    refusals.Refuse("plan.zero_stage",
                    fmt::format("{} with a pipeline; PaddleNLP has stage1 then", plan.zero_stage));
  }
  const int parts = plan.pipeline_parallel * plan.virtual_pipeline;
  if (problem.model.layer_count % parts != 0) {
    refusals.Refuse(
        "plan.pipeline_parallel",
        fmt::format("{} with {} virtual stages; PaddleNLP wants them to divide {} layers",
                    plan.pipeline_parallel, plan.virtual_pipeline, problem.model.layer_count));
  }
}

void SetExperts(const Problem& problem, const ParallelPlan& plan, Json& config,
                Refusals& refusals) {
  if (!problem.model.moe.has_value()) return;
  config["use_expert_parallel"] = plan.expert_parallel > 1;
  config["expert_parallel_degree"] = plan.expert_parallel;
  const int group = plan.zero_group_size > 0 ? plan.zero_group_size : plan.data_parallel;
  const int shards = plan.zero_stage == 0 ? plan.data_parallel : group;
  const bool divides = shards % plan.expert_parallel == 0;
  if (plan.expert_parallel > 1 && (plan.tensor_parallel > 1 || !divides)) {
    refusals.Refuse("plan.expert_parallel",
                    fmt::format("{}; PaddleNLP wants a divisor of {} ranks, without tensor "
                                "parallelism",
                                plan.expert_parallel, shards));
  }
  if (plan.expert_tensor_parallel != plan.tensor_parallel) {
    refusals.Refuse("plan.expert_tensor_parallel",
                    fmt::format("{}; PaddleNLP splits experts as the other weights: {}",
                                plan.expert_tensor_parallel, plan.tensor_parallel));
  }
}

void SetParallelism(const Problem& problem, const ParallelPlan& plan, Json& config,
                    Refusals& refusals) {
  config["tensor_parallel_degree"] = plan.tensor_parallel;
  config["sequence_parallel"] = plan.tensor_parallel > 1 && plan.sequence_parallel;
  config["pipeline_parallel_degree"] = plan.pipeline_parallel;
  config["virtual_pp_degree"] = plan.virtual_pipeline;
  const bool is_ring = plan.context_parallel_kind == ContextParallelKind::kRing;
  config["context_parallel_degree"] = is_ring ? plan.context_parallel : 1;
  config["sep_parallel_degree"] = is_ring ? 1 : plan.context_parallel;
  SetSharding(problem, plan, config, refusals);
  SetExperts(problem, plan, config, refusals);
}

// Refuses what PaddleNLP does not overlap.
void CheckOverlap(const ParallelPlan& plan, bool reduces, bool gathers, Refusals& refusals) {
  if (gathers && plan.zero_stage == 2) {
    refusals.Refuse("workload.overlap.parameter_gather",
                    "true with ZeRO 2; PaddleNLP overlaps it with ZeRO 1 and 3");
  }
  if (reduces && plan.zero_stage == 0 && plan.pipeline_parallel == 1) {
    refusals.Refuse("workload.overlap.gradient_reduce",
                    "true without sharding and pipeline; PaddleNLP has no setting for it");
  }
}

// Options are words of one text each.
void SetOverlap(const Problem& problem, const ParallelPlan& plan, Json& config,
                Refusals& refusals) {
  const Overlap& overlap = problem.workload.overlap;
  if (plan.tensor_parallel > 1 && overlap.tensor_parallel) {
    config["tensor_parallel_config"] =
        plan.sequence_parallel ? "enable_sp_async_reduce_scatter" : "enable_mp_async_allreduce";
  }
  const bool reduces = overlap.gradient_reduce && plan.data_parallel > 1;
  const bool gathers = overlap.parameter_gather && plan.data_parallel > 1;
  CheckOverlap(plan, reduces, gathers, refusals);
  std::vector<std::string> pipeline;
  if (overlap.pipeline_p2p) pipeline.emplace_back("enable_overlap_p2p_comm");
  if (reduces) {
    pipeline.emplace_back(plan.zero_stage == 0 ? "enable_dp_comm_overlap"
                                               : "enable_sharding_comm_overlap");
  }
  if (plan.pipeline_parallel > 1 && !pipeline.empty()) {
    config["pipeline_parallel_config"] = fmt::format("{}", fmt::join(pipeline, " "));
  }
  std::vector<std::string> sharding;
  if (reduces && (plan.zero_stage == 1 || plan.zero_stage == 2)) {
    sharding.push_back(fmt::format("enable_stage{}_overlap", plan.zero_stage));
  }
  if (gathers && plan.zero_stage == 1) sharding.emplace_back("enable_stage1_broadcast_overlap");
  if (!sharding.empty()) {
    config["sharding_parallel_config"] = fmt::format("{}", fmt::join(sharding, " "));
  }
}

// Returns the layers of the model behind the first `counts` layers of each stage.
Json LayersWithout(const std::vector<int>& counts, const std::vector<int>& layers) {
  Json indices = Json::array();
  int begin = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    for (int i = counts[stage]; i < layers[stage]; ++i) indices.push_back(begin + i);
    begin += layers[stage];
  }
  return indices;
}

void SetRecompute(const Problem& problem, const ParallelPlan& plan, Json& config,
                  Refusals& refusals) {
  const RecomputeForm form = RecomputeFormOf(problem, plan);
  config["recompute"] = form != RecomputeForm::kNothing;
  if (form == RecomputeForm::kNothing) return;
  config["recompute_granularity"] = form == RecomputeForm::kSelective ? "core_attn" : "full";
  if (form != RecomputeForm::kSomeLayers) return;
  const bool is_full = plan.recompute.granularity == RecomputeGranularity::kFull &&
                       plan.recompute.selective_layer_counts.empty();
  if (!is_full || plan.virtual_pipeline > 1) {
    refusals.Refuse("plan.recompute",
                    RecomputedLayersText(problem, plan) +
                        "; PaddleNLP names layers that are not recomputed in full, and no virtual "
                        "stages with them");
    return;
  }
  config["no_recompute_layers"] = LayersWithout(
      plan.recompute.layer_counts, LayersPerStage(plan, problem.model, problem.profile));
}

void SetTraining(const Problem& problem, const ParallelPlan& plan, Json& config,
                 Refusals& refusals) {
  const Workload& workload = problem.workload;
  config["per_device_train_batch_size"] = plan.micro_batch_size;
  config["gradient_accumulation_steps"] = MicroBatchCount(plan, workload.global_batch_size);
  config["max_seq_length"] = workload.sequence_length;
  config["bf16"] = workload.precision == Precision::kBf16;
  config["fp16"] = workload.precision == Precision::kFp16;
  if (workload.precision != Precision::kFp32) {
    config["fp16_opt_level"] = "O2";
    config["amp_master_grad"] = workload.gradient_dtype == GradientDtype::kFp32;
  }
  const bool is_own_type = Word(workload.gradient_dtype) == Word(workload.precision);
  const bool is_known = workload.precision != Precision::kFp8;  // else it is refused itself
  if (is_known && workload.gradient_dtype != GradientDtype::kFp32 && !is_own_type) {
    refusals.Refuse("workload.gradient_dtype",
                    fmt::format("{} with {}; PaddleNLP has fp32 or the parameters' type",
                                Word(workload.gradient_dtype), Word(workload.precision)));
  }
  config["optim"] = "adamw";
  config["use_flash_attention"] = workload.attention_kernel == AttentionKernel::kFlash2;
  config["use_fused_rms_norm"] =
      workload.norm_kernel == KernelFusion::kFused && problem.model.norm == NormKind::kRmsnorm;
  config["use_fused_rope"] = problem.profile.rotary_is_fused;
  config["fuse_attention_qkv"] = problem.profile.qkv_is_one_gemm;
  config["fuse_attention_ffn"] = problem.profile.gate_up_is_one_gemm;
  if (workload.cross_entropy_kernel == KernelFusion::kFused) {
    config["use_fused_head_and_loss_fn"] = true;
  }
}

std::string LaunchCommand(const JobSize& size) {
  std::string devices;
  for (int i = 0; i < size.processes_per_node; ++i) {
    devices += fmt::format("{}{}", i > 0 ? "," : "", i);
  }
  const std::string meeting =
      size.nodes == 1 ? "" : fmt::format("--master $MASTER_ADDR:29500 --nnodes {} ", size.nodes);
  return fmt::format(
      "python -u -m paddle.distributed.launch {}--devices {} run_pretrain.py plan.json", meeting,
      devices);
}

}  // namespace

LaunchConfig ExportPaddle(const Problem& problem, const ParallelPlan& plan, Refusals& refusals) {
  RefuseInexpressible(problem, plan, kExpressible, refusals);
  Json config = Json::object();
  SetTraining(problem, plan, config, refusals);
  SetParallelism(problem, plan, config, refusals);
  SetOverlap(problem, plan, config, refusals);
  SetRecompute(problem, plan, config, refusals);
  config["do_train"] = true;
  return {.text = JsonText(config),
          .file_name = "plan.json",
          .versions = "PaddleNLP 3.0",
          .command = LaunchCommand(JobSizeOf(problem, plan)),
          .left_out = {"model_name_or_path, whose file has the sizes; the plan is for " +
                           ModelSizes(problem.model),
                       "other facts of that file: rope_theta, rope_scaling, rms_norm_eps, "
                       "attention_bias, norms of queries and keys, the router's settings",
                       "data and tokenizer: input_dir, split, tokenizer_name_or_path",
                       "length and learning rate: max_steps, learning_rate, min_learning_rate, "
                       "warmup_steps, weight_decay, max_grad_norm",
                       "checkpoints: output_dir, save_steps, unified_checkpoint"}};
}

}  // namespace meshwright
