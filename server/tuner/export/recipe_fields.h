#pragma once

#include <array>
#include <string_view>

namespace meshwright {

// A flag of Megatron-LM and the field of a configuration that stands for it. A path beginning with
// "model." is of the model, "ddp." of DistributedDataParallelConfig, and so on.
struct RecipeField {
  std::string_view flag = {};
  std::string_view bridge = {};  // path in a ConfigContainer of Megatron-Bridge
  std::string_view nemo = {};    // path in a recipe of NeMo 2; empty: there is none
  std::string_view source = {};  // the field of the question that asks for it, if NeMo has none
};

inline constexpr std::array kRecipeFields = {
    RecipeField{"--tensor-model-parallel-size", "model.tensor_model_parallel_size",
                "trainer.strategy.tensor_model_parallel_size"},
    RecipeField{"--sequence-parallel", "model.sequence_parallel",
                "trainer.strategy.sequence_parallel"},
    RecipeField{"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size",
                "trainer.strategy.pipeline_model_parallel_size"},
    RecipeField{"--num-virtual-stages-per-pipeline-rank",
                "model.virtual_pipeline_model_parallel_size",
                "trainer.strategy.virtual_pipeline_model_parallel_size"},
    RecipeField{"--decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage",
                "trainer.strategy.num_layers_in_first_pipeline_stage"},
    RecipeField{"--decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage",
                "trainer.strategy.num_layers_in_last_pipeline_stage"},
    RecipeField{"--account-for-embedding-in-pipeline-split",
                "model.account_for_embedding_in_pipeline_split",
                "trainer.strategy.account_for_embedding_in_pipeline_split"},
    RecipeField{"--account-for-loss-in-pipeline-split", "model.account_for_loss_in_pipeline_split",
                "trainer.strategy.account_for_loss_in_pipeline_split"},
    RecipeField{"--pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout",
                "trainer.strategy.pipeline_model_parallel_layout"},
    // A switch that is off: SettingOf.
    RecipeField{"--no-overlap-p2p-communication", "model.overlap_p2p_comm",
                "model.config.overlap_p2p_comm"},
    RecipeField{"--context-parallel-size", "model.context_parallel_size",
                "trainer.strategy.context_parallel_size"},
    RecipeField{"--cp-comm-type", "model.cp_comm_type", "model.config.cp_comm_type"},
    RecipeField{"--hierarchical-context-parallel-sizes",
                "model.hierarchical_context_parallel_sizes", "", "plan.context_parallel_kind"},
    RecipeField{"--expert-model-parallel-size", "model.expert_model_parallel_size",
                "trainer.strategy.expert_model_parallel_size"},
    RecipeField{"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size",
                "trainer.strategy.expert_tensor_parallel_size"},
    RecipeField{"--moe-token-dispatcher-type", "model.moe_token_dispatcher_type",
                "model.config.moe_token_dispatcher_type"},
    RecipeField{"--micro-batch-size", "train.micro_batch_size", "data.micro_batch_size"},
    RecipeField{"--global-batch-size", "train.global_batch_size", "data.global_batch_size"},
    RecipeField{"--use-distributed-optimizer", "ddp.use_distributed_optimizer",
                "trainer.strategy.ddp.use_distributed_optimizer"},
    RecipeField{"--use-megatron-fsdp", "ddp.use_megatron_fsdp", "", "plan.zero_stage"},
    RecipeField{"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy", "",
                "plan.zero_stage"},
    RecipeField{"--ckpt-format", "checkpoint.ckpt_format", "", "plan.zero_stage"},
    RecipeField{"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances",
                "trainer.strategy.num_distributed_optimizer_instances"},
    RecipeField{"--overlap-grad-reduce", "ddp.overlap_grad_reduce",
                "trainer.strategy.ddp.overlap_grad_reduce"},
    RecipeField{"--overlap-param-gather", "ddp.overlap_param_gather",
                "trainer.strategy.ddp.overlap_param_gather"},
    RecipeField{"--tp-comm-overlap", "comm_overlap.tp_comm_overlap", "",
                "workload.overlap.tensor_parallel"},
    RecipeField{"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping",
                "trainer.strategy.use_tp_pp_dp_mapping"},
    RecipeField{"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload",
                "optim.config.optimizer_cpu_offload"},
    RecipeField{"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction",
                "optim.config.optimizer_offload_fraction"},
    RecipeField{"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer",
                "optim.config.use_precision_aware_optimizer"},
    RecipeField{"--recompute-granularity", "model.recompute_granularity",
                "model.config.recompute_granularity"},
    RecipeField{"--recompute-method", "model.recompute_method", "model.config.recompute_method"},
    RecipeField{"--recompute-num-layers", "model.recompute_num_layers",
                "model.config.recompute_num_layers"},
    RecipeField{"--recompute-modules", "model.recompute_modules", "model.config.recompute_modules"},
    RecipeField{"--seq-length", "model.seq_length", "data.seq_length"},
    RecipeField{"--attention-backend", "model.attention_backend", "model.config.attention_backend"},
    RecipeField{"--cross-entropy-loss-fusion", "model.cross_entropy_loss_fusion",
                "model.config.cross_entropy_loss_fusion"},
    RecipeField{"--attention-dropout", "model.attention_dropout", "model.config.attention_dropout"},
    RecipeField{"--hidden-dropout", "model.hidden_dropout", "model.config.hidden_dropout"},
};

}  // namespace meshwright
