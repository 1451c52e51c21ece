#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Names and choices are those of the sources that server/tuner/export/exporters.h names.

struct Case {
  std::string name;
  std::string framework;
  std::function<void(Problem&, ParallelPlan&)> change;
  std::string expected;  // in the error
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kRefused[] = {
    {"torchtitan_zero1", "torchtitan", [](Problem&, ParallelPlan& plan) { plan.zero_stage = 1; },
     "plan.zero_stage = 1; torchtitan has ZeRO 0, 2, 3"},
    {"torchtitan_replicas_with_tensor", "torchtitan",
     [](Problem&, ParallelPlan& plan) { plan.zero_stage = 0; },
     "plan.zero_stage = 0 with other parallelism"},
    {"torchtitan_group", "torchtitan",
     [](Problem&, ParallelPlan& plan) { plan.zero_group_size = 3; },
     "plan.zero_group_size = 3; torchtitan shards over whole groups"},
    {"torchtitan_sequence", "torchtitan",
     [](Problem& p, ParallelPlan&) { p.workload.sequence_length = 4098; },
     "plan.context_parallel = 1; torchtitan wants sequence_length = 4098 to be a multiple of 4"},
    {"torchtitan_some_layers", "torchtitan",
     [](Problem&, ParallelPlan& plan) {
       plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {55}};
     },
     "plan.recompute.layer_counts = [55]; torchtitan recomputes every n-th layer"},
    {"torchtitan_delayed_scaling", "torchtitan",
     [](Problem& p, ParallelPlan&) {
       p.workload.precision = Precision::kFp8;
       p.workload.fp8_recipe = Fp8Recipe::kDelayed;
     },
     "workload.fp8_recipe = delayed; torchtitan has tensorwise, rowwise, mxfp8"},
    {"torchtitan_forms", "torchtitan",
     [](Problem& p, ParallelPlan&) {
       p.model.attention_sinks = true;
       p.model.biases = LinearBiases::kAll;
       p.model.output_soft_cap = 30;
     },
     "3 invalid fields: model.attention_sinks = true; torchtitan has no sinks of attention; "
     "model.biases = all; torchtitan has the biases that its norm has, or those of queries, keys "
     "and values; model.output_soft_cap = 30; torchtitan does not bound the logits"},
    {"megatron_lm_forms", "megatron-lm",
     [](Problem& p, ParallelPlan&) { p.model.pre_norms = false; }, "model.pre_norms = false"},
    {"torchtitan_two_at_once", "torchtitan",
     [](Problem& p, ParallelPlan& plan) {
       plan.zero_stage = 1;
       p.workload.optimizer = Optimizer::kSgd;
     },
     "2 invalid fields: plan.zero_stage = 1"},
    {"fsdp_pipeline", "pytorch-fsdp",
     [](Problem&, ParallelPlan& plan) {
       plan = {.pipeline_parallel = 2, .data_parallel = 64, .zero_stage = 3};
     },
     "plan.pipeline_parallel = 2; PyTorch FSDP has no setting for pipelines"},
    {"fsdp_some_layers", "pytorch-fsdp",
     [](Problem&, ParallelPlan& plan) {
       plan = {.data_parallel = 128, .zero_stage = 3};
       plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {40}};
     },
     "plan.recompute = some layers of a stage; PyTorch FSDP recomputes one of: nothing, every "
     "layer"},
    {"deepspeed_parts_of_layers", "deepspeed",
     [](Problem&, ParallelPlan& plan) {
       plan = {.data_parallel = 128, .zero_stage = 3};
       plan.recompute = {.granularity = RecomputeGranularity::kSelective};
     },
     "plan.recompute = parts of every layer; DeepSpeed recomputes one of: nothing, every layer"},
    {"deepspeed_tensor_in_pipeline", "deepspeed",
     [](Problem&, ParallelPlan& plan) {
       plan = {.tensor_parallel = 2, .pipeline_parallel = 2, .data_parallel = 32};
     },
     "plan.tensor_parallel = 2 with a pipeline"},
    {"deepspeed_groups", "deepspeed",
     [](Problem&, ParallelPlan& plan) {
       plan = {.data_parallel = 128, .zero_stage = 2, .zero_group_size = 8};
     },
     "plan.zero_group_size = 8 with ZeRO 2; DeepSpeed shards in groups (MiCS) with ZeRO 3"},
    {"megatron_lm_zero3", "megatron-lm", [](Problem&, ParallelPlan&) {},
     "plan.zero_stage = 3; Megatron-LM has ZeRO 0, 1"},
    {"megatron_lm_2022_swiglu", "megatron-lm",
     [](Problem& p, ParallelPlan& plan) {
       p.workload.framework_version = "2022";
       plan.zero_stage = 1;
     },
     "model.mlp = swiglu; Megatron-LM has gelu"},
    {"megatron_deepspeed_groups_of_heads", "megatron-deepspeed", [](Problem&, ParallelPlan&) {},
     "model.kv_head_count = 8; Megatron-DeepSpeed of 2022 (bigscience-workshop/Megatron-DeepSpeed) "
     "has a key-value head for each head"},
    {"nanotron_zero3", "nanotron", [](Problem&, ParallelPlan&) {},
     "plan.zero_stage = 3; nanotron has ZeRO 0, 1"},
    {"nanotron_experts", "nanotron",
     [](Problem& p, ParallelPlan& plan) {
       p.model = Mixtral_8x7b();
       plan.zero_stage = 1;
     },
     "model.moe = 8 experts; nanotron has no setting for experts"},
    {"paddle_replicas_inside_pipelines", "paddle",
     [](Problem& p, ParallelPlan& plan) {
       plan = DensePlan();
       plan.zero_stage = 0;
       p.workload.overlap = {};
     },
     "plan.rank_order = tp-cp-ep-dp-pp with ranks that are not sharded"},
    {"paddle_gather_of_zero2", "paddle", [](Problem&, ParallelPlan& plan) { plan.zero_stage = 2; },
     "workload.overlap.parameter_gather = true with ZeRO 2"},
    {"maxtext_schedule", "maxtext",
     [](Problem&, ParallelPlan& plan) {
       plan = {.pipeline_parallel = 4, .data_parallel = 32, .zero_stage = 3};
     },
     "plan.schedule = 1f1b; MaxText has gpipe"},
    {"nemo_zero3", "nemo", [](Problem&, ParallelPlan&) {},
     "plan.zero_stage = 3; NeMo's recipes have no field for --use-megatron-fsdp"},
    {"bridge_rowwise", "megatron-bridge",
     [](Problem& p, ParallelPlan&) {
       p.workload.precision = Precision::kFp8;
       p.workload.fp8_recipe = Fp8Recipe::kRowwise;
     },
     "workload.fp8_recipe = rowwise; recipes have tensorwise"},
    {"mindspeed_virtual_stages", "mindspeed",
     [](Problem&, ParallelPlan& plan) {
       plan = DensePlan();
       plan.schedule = Schedule::kInterleaved1f1b;
       plan.virtual_pipeline = 3;
     },
     "plan.virtual_pipeline = 3 with [20, 20, 20, 20] layers per stage; MindSpeed wants equal"},
};

class FrameworkRefuses : public testing::TestWithParam<Case> {};

TEST_P(FrameworkRefuses, NamesTheField) {
  Problem problem = Llama70b(GetParam().framework, "");
  ParallelPlan plan = ShardedPlan();
  GetParam().change(problem, plan);
  const auto config = ExportPlan(GetParam().framework, problem, plan);
  ASSERT_FALSE(config.ok()) << config->text;
  EXPECT_EQ(Reason(config.status()), "NOT_EXPRESSIBLE");
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(All, FrameworkRefuses, testing::ValuesIn(kRefused),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
