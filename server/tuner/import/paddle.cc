#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/import/imported_job.h"
#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

// Names and defaults are those of paddlenlp/trainer/training_args.py.
constexpr std::pair<std::string_view, RankOrder> kOrderWords[] = {
    {"pp_first", RankOrder::kTpCpEpDpPp}, {"sharding_first", RankOrder::kTpCpEpPpDp}};
constexpr std::pair<std::string_view, Optimizer> kOptimizerWords[] = {
    {"adamw", Optimizer::kAdam}, {"adamw_custom", Optimizer::kAdam}, {"sgd", Optimizer::kSgd}};

// Options are words of one text, with blanks or commas between them.
bool HasWord(SettingReader& settings, std::string_view key, std::string_view word) {
  const std::vector<std::string> words = settings.List(key);
  return std::ranges::find(words, word) != words.end();
}

void ReadPrecision(SettingReader& settings, WorkloadRequest& workload) {
  const bool is_bf16 = settings.Bool("bf16").value_or(false);
  const bool is_fp16 = settings.Bool("fp16").value_or(false);
  if (is_bf16 && is_fp16) settings.Refuse("bf16", "true together with fp16");
  workload.precision = is_bf16 ? Precision::kBf16 : (is_fp16 ? Precision::kFp16 : Precision::kFp32);
  const std::string level = settings.Text("fp16_opt_level").value_or("O1");
  const bool is_master = settings.Bool("amp_master_grad").value_or(false);
  workload.gradient_dtype = GradientDtype::kFp32;
  if (level == "O2" && !is_master) {
    if (is_bf16) workload.gradient_dtype = GradientDtype::kBf16;
    if (is_fp16) workload.gradient_dtype = GradientDtype::kFp16;
  }
}

void ReadWorkload(SettingReader& settings, WorkloadRequest& workload) {
  const auto length = settings.Int("max_seq_length");
  const auto other = settings.Int("max_length");
  workload.sequence_length = length.has_value() ? length : other;
  if (!workload.sequence_length.has_value()) {
    settings.Refuse("max_seq_length", "is not stated");
  }
  ReadPrecision(settings, workload);
  workload.optimizer =
      settings.Choice<Optimizer>("optim", kOptimizerWords).value_or(Optimizer::kAdam);
  workload.attention_kernel = settings.Bool("use_flash_attention").value_or(false)
                                  ? AttentionKernel::kFlash2
                                  : AttentionKernel::kUnfused;
  workload.norm_kernel = settings.Bool("use_fused_rms_norm").value_or(false)
                             ? KernelFusion::kFused
                             : KernelFusion::kUnfused;
  const bool is_fused = settings.Bool("use_fused_head_and_loss_fn").value_or(false);
  workload.cross_entropy_kernel = is_fused ? KernelFusion::kFused : KernelFusion::kUnfused;
  workload.overlap.tensor_parallel =
      HasWord(settings, "tensor_parallel_config", "enable_mp_async_allreduce") ||
      HasWord(settings, "tensor_parallel_config", "enable_sp_async_reduce_scatter");
  workload.overlap.pipeline_p2p =
      HasWord(settings, "pipeline_parallel_config", "enable_overlap_p2p_comm");
  workload.overlap.gradient_reduce =
      HasWord(settings, "pipeline_parallel_config", "enable_sharding_comm_overlap") ||
      HasWord(settings, "pipeline_parallel_config", "enable_dp_comm_overlap") ||
      HasWord(settings, "sharding_parallel_config", "enable_stage1_overlap") ||
      HasWord(settings, "sharding_parallel_config", "enable_stage2_overlap");
  workload.overlap.parameter_gather =
      HasWord(settings, "sharding_parallel_config", "enable_stage1_broadcast_overlap");
}

// Notes the words of the options that are read for no field.
void NoteOtherOptions(SettingReader& settings) {
  constexpr std::string_view kRead[] = {
      "enable_mp_async_allreduce",    "enable_sp_async_reduce_scatter",  "enable_overlap_p2p_comm",
      "enable_sharding_comm_overlap", "enable_dp_comm_overlap",          "enable_stage1_overlap",
      "enable_stage2_overlap",        "enable_stage1_broadcast_overlap", "use_dualpipev"};
  for (const char* key :
       {"tensor_parallel_config", "pipeline_parallel_config", "sharding_parallel_config"}) {
    for (const std::string& word : settings.List(key)) {
      if (std::ranges::find(kRead, word) != std::end(kRead)) continue;
      settings.Note(fmt::format("{}: {} is not read", key, word));
    }
  }
}

void ReadDegrees(SettingReader& settings, PlanRequest& plan) {
  // -1 stands for 1.
  const auto degree = [&settings](std::string_view key) {
    return settings.Degree(key, /*unset=*/-1);
  };
  plan.tensor_parallel = degree("tensor_parallel_degree");
  plan.sequence_parallel =
      settings.Bool("sequence_parallel").value_or(false) && *plan.tensor_parallel > 1;
  plan.pipeline_parallel = degree("pipeline_parallel_degree");
  const int virtual_stages = degree("virtual_pp_degree");
  plan.virtual_pipeline = *plan.pipeline_parallel > 1 ? virtual_stages : 1;
  plan.schedule = *plan.virtual_pipeline > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
  if (*plan.pipeline_parallel > 1 &&
      HasWord(settings, "pipeline_parallel_config", "use_dualpipev")) {
    plan.schedule = Schedule::kDualpipeV;
  }
  const int exchanged = degree("sep_parallel_degree");
  plan.context_parallel = exchanged * degree("context_parallel_degree");
  plan.context_parallel_kind =
      exchanged > 1 ? ContextParallelKind::kUlysses : ContextParallelKind::kRing;
  plan.rank_order = settings.Choice<RankOrder>("hybrid_parallel_topo_order", kOrderWords)
                        .value_or(RankOrder::kTpCpEpDpPp);
}

void ReadSharding(SettingReader& settings, PlanRequest& plan) {
  const std::string sharding = settings.Text("sharding").value_or("");
  const int degree = settings.Int("sharding_parallel_degree").value_or(-1);
  plan.zero_stage = 0;
  std::istringstream words(sharding);
  for (std::string word; words >> word;) {
    if (word == "stage1" || word == "stage2" || word == "stage3") {
      plan.zero_stage = word.back() - '0';
    } else {
      settings.Refuse("sharding", word + "; read are stage1, stage2 and stage3");
    }
  }
  if (*plan.zero_stage > 0 && degree > 0) plan.zero_group_size = degree;
}

// Layers that are not recomputed are named one by one.
void ReadRecompute(SettingReader& settings, const ModelSpec* model, PlanRequest& plan) {
  const std::string granularity = settings.Text("recompute_granularity").value_or("full");
  const std::vector<int> kept = settings.Ints("no_recompute_layers");
  plan.recompute = RecomputePlan{};
  if (!settings.Bool("recompute").value_or(false)) return;
  if (granularity != "full") {
    if (granularity == "full_attn") {
      settings.Note("recompute_granularity = full_attn: read as core_attn");
    }
    plan.recompute = RecomputePlan{.granularity = RecomputeGranularity::kSelective};
    return;
  }
  plan.recompute = EveryLayer();
  if (kept.empty()) return;
  const int stages = *plan.pipeline_parallel;
  if (model == nullptr || model->layer_count % stages != 0) {
    settings.Refuse("no_recompute_layers", "the layers of the stages are not known");
    return;
  }
  const int of_stage = model->layer_count / stages;
  std::vector<int>& counts = plan.recompute->layer_counts;
  counts.assign(static_cast<std::size_t>(stages), of_stage);
  for (const int layer : kept) {
    if (layer < 0 || layer >= model->layer_count) {
      settings.Refuse("no_recompute_layers",
                      fmt::format("{}; the model has {} layers", layer, model->layer_count));
      return;
    }
    --counts[static_cast<std::size_t>(layer / of_stage)];
  }
}

}  // namespace

void ReadPaddle(SettingReader& settings, const ReaderContext& context, ImportedJob& job) {
  const ModelSpec* model = ModelOf(context, job);
  const std::string name = settings.Text("model_name_or_path").value_or("");
  if (model == nullptr) {
    job.missing_of_model.push_back(
        fmt::format("all sizes (they stand in the files of model_name_or_path = {})", name));
  }
  PlanRequest& plan = job.plan;
  ReadWorkload(settings, job.workload);
  ReadDegrees(settings, plan);
  NoteOtherOptions(settings);
  ReadSharding(settings, plan);
  SetDataParallel(settings, context,
                  "tensor_parallel_degree x pipeline_parallel_degree x sep and context degree",
                  job);
  const int experts = std::max(1, settings.Int("expert_parallel_degree").value_or(1));
  const bool uses_experts = settings.Bool("use_expert_parallel").value_or(experts > 1);
  if (model != nullptr && model->moe.has_value()) {
    plan.expert_parallel = experts;
    if (uses_experts && experts == 1 && plan.data_parallel.has_value() &&
        !settings.Has("expert_parallel_degree")) {
      plan.expert_parallel = *plan.data_parallel;  // of versions without the degree
    }
    plan.expert_tensor_parallel = *plan.tensor_parallel;
  }
  ReadRecompute(settings, model, plan);
  plan.micro_batch_size = settings.Int("per_device_train_batch_size").value_or(8);
  const int steps = std::max(1, settings.Int("gradient_accumulation_steps").value_or(1));
  if (plan.data_parallel.has_value()) {
    job.workload.global_batch_size =
        static_cast<int>(1LL * *plan.data_parallel * *plan.micro_batch_size * steps);
  }
}

}  // namespace meshwright
