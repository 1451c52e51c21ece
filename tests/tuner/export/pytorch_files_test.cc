#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Names and choices are those of the sources that server/tuner/export/exporters.h names.

TEST(TorchtitanTest, GoldenDense) {
  // A step has 1,024 / 8 = 128 sequences a rank, which the pipeline runs one by one; its stages
  // have two parts of 10 layers each.
  ParallelPlan plan = DensePlan();
  plan.zero_stage = 2;
  plan.zero_group_size = 4;
  plan.schedule = Schedule::kInterleaved1f1b;
  plan.virtual_pipeline = 2;
  plan.recompute = {.granularity = RecomputeGranularity::kFull};
  EXPECT_EQ(Exported("torchtitan", Llama70b("torchtitan", ""), plan), R"([optimizer]
name = "AdamW"

[training]
local_batch_size = 128
global_batch_size = 1024
seq_len = 4096
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 4
fsdp_reshard_after_forward = "never"
tensor_parallel_degree = 4
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_microbatch_size = 1
pipeline_parallel_layers_per_stage = 10
pipeline_parallel_first_stage_less_layers = 0
pipeline_parallel_last_stage_less_layers = 0
context_parallel_degree = 1

[activation_checkpoint]
mode = "full"

[compile]
enable = true
components = ["loss"]
)");
}

TEST(TorchtitanTest, GoldenExperts) {
  Problem problem = ExpertProblem("torchtitan");
  problem.workload.precision = Precision::kFp8;
  problem.workload.fp8_recipe = Fp8Recipe::kRowwise;
  problem.workload.cross_entropy_kernel = KernelFusion::kUnfused;
  problem.workload.overlap.tensor_parallel = true;
  ParallelPlan plan = ShardedPlan();
  plan.data_parallel = 16;
  plan.context_parallel = 2;
  plan.expert_parallel = 8;
  plan.recompute = {.granularity = RecomputeGranularity::kSelective};
  EXPECT_EQ(Exported("torchtitan", problem, plan), R"([model]
converters = ["quantize.linear.float8"]

[quantize.linear.float8]
recipe_name = "rowwise"

[optimizer]
name = "AdamW"

[training]
local_batch_size = 1
global_batch_size = 1024
seq_len = 4096
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"

[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 16
fsdp_reshard_after_forward = "always"
tensor_parallel_degree = 4
pipeline_parallel_degree = 1
context_parallel_degree = 2
context_parallel_rotate_method = "alltoall"
expert_parallel_degree = 8
expert_tensor_parallel_degree = 1
enable_async_tensor_parallel = true

[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"

[compile]
enable = true
components = ["model"]
)");
}

TEST(PyTorchFsdpTest, Golden) {
  const ParallelPlan plan = {.data_parallel = 64,
                             .context_parallel = 2,
                             .zero_stage = 3,
                             .zero_group_size = 16,
                             .recompute = {.granularity = RecomputeGranularity::kFull}};
  const auto config = ExportPlan("pytorch-fsdp", Llama70b("pytorch-fsdp", "2024"), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->text, R"(compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 16
num_processes: 128
rdzv_backend: c10d
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_activation_checkpointing: true
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_state_dict_type: SHARDED_STATE_DICT
parallelism_config:
  parallelism_config_dp_replicate_size: 8
  parallelism_config_dp_shard_size: 8
  parallelism_config_tp_size: 1
  parallelism_config_cp_size: 2
  parallelism_config_cp_comm_strategy: alltoall
)");
  // 1,024 / 64 = 16 micro-batches
  EXPECT_EQ(config->command,
            "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=16 accelerate launch --config_file plan.yaml "
            "--machine_rank $NODE_RANK --main_process_ip $MASTER_ADDR --main_process_port 29500 "
            "train.py --per_device_train_batch_size 1 --gradient_accumulation_steps 16");
}

TEST(DeepSpeedTest, GoldenWithOffload) {
  Problem problem = Llama70b("deepspeed", "");
  problem.workload.gradient_dtype = GradientDtype::kBf16;
  const ParallelPlan plan = {.data_parallel = 32,
                             .context_parallel = 4,
                             .context_parallel_kind = ContextParallelKind::kUlysses,
                             .zero_stage = 3,
                             .optimizer_offload_ratio = 0.5};
  EXPECT_EQ(Exported("deepspeed", problem, plan), R"({
  "train_batch_size": 1024,
  "train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 32,
  "bf16": {
    "enabled": true
  },
  "fp16": {
    "enabled": false
  },
  "data_types": {
    "grad_accum_dtype": "bf16"
  },
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "contiguous_gradients": true,
    "reduce_scatter": true,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true,
      "ratio": 0.5
    }
  },
  "sequence_parallel_size": 4,
  "data_parallel_size": 32
}
)");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
