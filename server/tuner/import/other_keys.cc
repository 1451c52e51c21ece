#include <array>
#include <span>
#include <string_view>

#include "server/tuner/import/readers.h"
#include "server/tuner/import/setting_reader.h"

namespace meshwright {
namespace {

using other_keys::kData;
using other_keys::kFiles;
using other_keys::kLogs;
using other_keys::kNone;
using other_keys::kRate;
using other_keys::kStart;
using other_keys::kUnpriced;

constexpr OtherKey kTorchtitan[] = {
    {"job.*", kNone, kLogs},
    {"profiling.*", kNone, kLogs},
    {"metrics.*", kNone, kLogs},
    {"checkpoint.*", kNone, kFiles},
    {"validation.*", kNone, kLogs},
    {"debug.*", kNone, kLogs},
    {"comm.*", kNone, kStart},
    {"memory_estimation.*", kNone, kLogs},
    {"lr_scheduler.*", kNone, kRate},
    {"fault_tolerance.*", kNone, kStart},
    {"optimizer.early_step_in_backward", kUnpriced,
     "the optimizer runs inside of the backward pass, which the model of time does not have"},
    {"optimizer.*", kNone, kRate},
    {"training.dataset*", kNone, kData},
    {"training.max_norm", kNone, kRate},
    {"training.steps", kNone, kRate},
    {"training.seed", kNone, kRate},
    {"training.deterministic", kNone, kRate},
    {"training.gc_freq", kNone, kLogs},
    {"training.gc_debug", kNone, kLogs},
    {"training.enable_cpu_offload", kUnpriced,
     "parameters, gradients and optimizer states are on the host, which a plan does not state"},
    {"model.hf_assets_path", kNone, kData},
    {"model.tokenizer_path", kNone, kData},
    {"model.print_after_conversion", kNone, kLogs},
    {"parallelism.enable_compiled_autograd", kUnpriced, "the backward pass is compiled"},
    {"parallelism.pipeline_parallel_split_points", kUnpriced,
     "stages of other sizes than an even split"},
    {"parallelism.*", kUnpriced, "is not read"},
    {"activation_checkpoint.*", kNone, "details of the recomputation of operators"},
    {"compile.*", kNone, "details of the compilation"},
    {"float8.*", kNone, "details of fp8"},
    {"quantize.*", kNone, "details of fp8"},
    {"mx.*", kNone, "details of fp8"},
    {"experimental.*", kNone, kStart},
};

constexpr OtherKey kDeepSpeed[] = {
    {"optimizer.params.*", kNone, kRate},
    {"scheduler.*", kNone, kRate},
    {"gradient_clipping", kNone, kRate},
    {"prescale_gradients", kNone, kRate},
    {"fp16.*", kNone, kRate},
    {"bf16.*", kNone, kRate},
    {"steps_per_print", kNone, kLogs},
    {"wall_clock_breakdown", kNone, kLogs},
    {"dump_state", kNone, kLogs},
    {"memory_breakdown", kNone, kLogs},
    {"tensorboard.*", kNone, kLogs},
    {"wandb.*", kNone, kLogs},
    {"csv_monitor.*", kNone, kLogs},
    {"flops_profiler.*", kNone, kLogs},
    {"comms_logger.*", kNone, kLogs},
    {"checkpoint.*", kNone, kFiles},
    {"zero_allow_untested_optimizer", kNone, kStart},
    {"zero_force_ds_cpu_optimizer", kNone, kStart},
    {"zero_optimization.*", kNone, "sizes of buckets and buffers"},
    {"communication_data_type", kUnpriced, "the type of messages is that of the gradients"},
    {"activation_checkpointing.*", kNone,
     "details of the recomputation, which the script asks for"},
    {"aio.*", kNone, "details of NVMe"},
    {"data_efficiency.*", kUnpriced, "shorter sequences at the start"},
    {"curriculum_learning.*", kUnpriced, "shorter sequences at the start"},
    {"compression_training.*", kUnpriced, "compressed layers"},
    {"hybrid_engine.*", kNone, kStart},
};

constexpr OtherKey kAccelerate[] = {
    {"compute_environment", kNone, kStart},
    {"debug", kNone, kLogs},
    {"downcast_bf16", kNone, kStart},
    {"enable_cpu_affinity", kNone, kStart},
    {"machine_rank", kNone, kStart},
    {"main_*", kNone, kStart},
    {"rdzv_backend", kNone, kStart},
    {"same_network", kNone, kStart},
    {"tpu_*", kNone, kStart},
    {"use_cpu", kNone, kStart},
    {"gpu_ids", kNone, kStart},
    {"num_machines", kNone, kStart},
    {"fsdp_config.fsdp_backward_prefetch*", kNone, "order of messages"},
    {"fsdp_config.fsdp_forward_prefetch", kNone, "order of messages"},
    {"fsdp_config.*", kNone, "how layers are wrapped and saved"},
    {"dynamo_config.*", kUnpriced, "the model is compiled, which the plan does not state"},
    {"fp8_config.*", kNone, "details of fp8"},
    {"env.*", kNone, kStart},
};

constexpr OtherKey kMaxText[] = {
    {"run_name", kNone, kLogs},
    {"base_output_directory", kNone, kFiles},
    {"hardware", kNone, kStart},
    {"steps", kNone, kRate},
    {"learning_rate*", kNone, kRate},
    {"warmup_*", kNone, kRate},
    {"adam_*", kNone, kRate},
    {"gradient_clipping_threshold", kNone, kRate},
    {"dataset_*", kNone, kData},
    {"tokenizer_*", kNone, kData},
    {"hf_*", kNone, kData},
    {"eval_*", kNone, kLogs},
    {"enable_checkpointing", kNone, kFiles},
    {"async_checkpointing", kNone, kFiles},
    {"checkpoint_*", kNone, kFiles},
    {"enable_goodput_recording", kNone, kLogs},
    {"profiler*", kNone, kLogs},
    {"upload_*", kNone, kLogs},
    {"skip_first_n_steps_for_profiler", kNone, kLogs},
    {"log_*", kNone, kLogs},
    {"gcs_metrics", kNone, kLogs},
    {"save_config_to_gcs", kNone, kLogs},
    {"rope_*", kNone, "positions"},
    {"normalization_layer_epsilon", kNone, "norms"},
    {"use_iota_embed", kNone, "embedding"},
    {"scan_layers", kNone, "compilation"},
    {"packing", kNone, kData},
    {"megablox", kNone, "kernels of experts"},
    {"sparse_matmul", kNone, "kernels of experts"},
    {"capacity_factor", kUnpriced, "tokens are dropped over the capacity of an expert"},
    {"logits_dot_in_fp32", kUnpriced, "the output layer runs in fp32"},
    {"matmul_precision", kNone, "kernels"},
    {"allow_split_physical_axes", kNone, kStart},
};

constexpr OtherKey kNanotron[] = {
    {"checkpoints.*", kNone, kFiles},
    {"data_stages", kNone, kData},
    {"data.*", kNone, kData},
    {"general.*", kNone, kLogs},
    {"lighteval*", kNone, kLogs},
    {"logging.*", kNone, kLogs},
    {"metrics_logging*", kNone, kLogs},
    {"profiler*", kNone, kLogs},
    {"s3_upload*", kNone, kFiles},
    {"tokenizer.*", kNone, kData},
    {"tokens.*", kNone, kRate},
    {"optimizer.*", kNone, kRate},
    {"model.ddp_bucket_cap_mb", kNone, "sizes of buckets"},
    {"model.init_method.*", kNone, kRate},
    {"model.make_vocab_size_divisible_by", kNone, "padding of the vocabulary"},
    {"model.model_config.*", kNone, "facts of the model that change no sizes"},
    {"parallelism.tp_recompute_allgather", kNone, "memory of gathered inputs"},
};

constexpr OtherKey kPaddle[] = {
    {"tokenizer_name_or_path", kNone, kData},
    {"input_dir", kNone, kData},
    {"dataset_*", kNone, kData},
    {"data_*", kNone, kData},
    {"split", kNone, kData},
    {"output_dir", kNone, kFiles},
    {"logging_*", kNone, kLogs},
    {"per_device_eval_batch_size", kNone, kLogs},
    {"eval*", kNone, kLogs},
    {"do_*", kNone, kLogs},
    {"save_*", kNone, kFiles},
    {"unified_checkpoint*", kNone, kFiles},
    {"ignore_*", kNone, kFiles},
    {"continue_training", kNone, kFiles},
    {"resume_from_checkpoint", kNone, kFiles},
    {"learning_rate", kNone, kRate},
    {"min_learning_rate", kNone, kRate},
    {"lr_scheduler_type", kNone, kRate},
    {"warmup_*", kNone, kRate},
    {"decay_steps", kNone, kRate},
    {"max_steps", kNone, kRate},
    {"num_train_epochs", kNone, kRate},
    {"weight_decay", kNone, kRate},
    {"adam_*", kNone, kRate},
    {"max_grad_norm", kNone, kRate},
    {"scale_loss", kNone, kRate},
    {"seed", kNone, kRate},
    {"dataloader_*", kNone, kData},
    {"distributed_dataloader", kNone, kData},
    {"disable_tqdm", kNone, kLogs},
    {"skip_profile_timer", kNone, kLogs},
    {"report_to", kNone, kLogs},
    {"load_best_model_at_end", kNone, kFiles},
    {"metric_for_best_model", kNone, kLogs},
    {"overwrite_output_dir", kNone, kFiles},
    {"share_folder", kNone, kData},
    {"device", kNone, kStart},
    {"use_fused_rope", kNone, "kernels, which the framework's profile has"},
    {"fuse_attention_*", kNone, "kernels, which the framework's profile has"},
    {"use_fused_*", kNone, "kernels, which the framework's profile has"},
    {"enable_linear_fused_grad_add", kNone, "kernels, which the framework's profile has"},
    {"use_async_save", kNone, kFiles},
    {"enable_auto_parallel", kUnpriced, "the plan is that of PaddleNLP's static planner"},
    {"lora", kUnpriced, "adapters are trained, and a plan trains all weights"},
    {"flash_mask", kNone, "kernels"},
    {"tensorwise_offload_optimizer", kUnpriced, "optimizer states wait on the host"},
    {"offload_optim", kUnpriced, "optimizer states wait on the host"},
};

}  // namespace

std::span<const OtherKey> OtherKeysOf(std::string_view framework) {
  if (framework == "torchtitan") return kTorchtitan;
  if (framework == "deepspeed") return kDeepSpeed;
  if (framework == "pytorch-fsdp") return kAccelerate;
  if (framework == "maxtext") return kMaxText;
  if (framework == "nanotron") return kNanotron;
  if (framework == "paddle") return kPaddle;
  return MegatronOtherKeys();
}

}  // namespace meshwright
