#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

RecomputePlan ReadRecompute(const MessageReader& in) {
  return {.granularity = in.Required("granularity", in.Choice<RecomputeGranularity>("granularity")),
          .layer_counts = in.Ints("layer_counts"),
          .modules = in.Texts("modules"),
          .selective_layer_counts = in.Ints("selective_layer_counts")};
}

// A stage of a mixed cluster is stated whole, but for the two that most stages do not use.
StagePlan ReadStage(const MessageReader& in) {
  StagePlan stage = {.pool = in.Required("pool", in.Text("pool")),
                     .node_count = in.RequiredInt("node_count"),
                     .tensor_parallel = in.RequiredInt("tensor_parallel"),
                     .data_parallel = in.RequiredInt("data_parallel"),
                     .context_parallel = in.Int("context_parallel").value_or(1),
                     .layer_count = in.RequiredInt("layer_count"),
                     .micro_batch_size = in.RequiredInt("micro_batch_size")};
  if (const auto recompute = in.Child("recompute")) stage.recompute = ReadRecompute(*recompute);
  return stage;
}

void Fill(const RecomputePlan& recompute, v1::Recompute& wire) {
  wire.set_granularity(std::string(Word(recompute.granularity)));
  wire.mutable_layer_counts()->Assign(recompute.layer_counts.begin(), recompute.layer_counts.end());
  wire.mutable_modules()->Assign(recompute.modules.begin(), recompute.modules.end());
  wire.mutable_selective_layer_counts()->Assign(recompute.selective_layer_counts.begin(),
                                                recompute.selective_layer_counts.end());
}

void Fill(const StagePlan& stage, v1::Stage& wire) {
  wire.set_pool(stage.pool);
  wire.set_node_count(stage.node_count);
  wire.set_tensor_parallel(stage.tensor_parallel);
  wire.set_data_parallel(stage.data_parallel);
  wire.set_context_parallel(stage.context_parallel);
  wire.set_layer_count(stage.layer_count);
  wire.set_micro_batch_size(stage.micro_batch_size);
  Fill(stage.recompute, *wire.mutable_recompute());
}

}  // namespace

PlanRequest ReadPlan(const MessageReader& in) {
  PlanRequest plan = {
      .tensor_parallel = in.Int("tensor_parallel"),
      .sequence_parallel = in.Bool("sequence_parallel"),
      .pipeline_parallel = in.Int("pipeline_parallel"),
      .virtual_pipeline = in.Int("virtual_pipeline"),
      .data_parallel = in.Int("data_parallel"),
      .context_parallel = in.Int("context_parallel"),
      .context_parallel_kind = in.Choice<ContextParallelKind>("context_parallel_kind"),
      .expert_parallel = in.Int("expert_parallel"),
      .expert_tensor_parallel = in.Int("expert_tensor_parallel"),
      .micro_batch_size = in.Int("micro_batch_size"),
      .zero_stage = in.Int("zero_stage"),
      .zero_group_size = in.Int("zero_group_size"),
      .schedule = in.Choice<Schedule>("schedule")};
  if (const auto recompute = in.Child("recompute")) plan.recompute = ReadRecompute(*recompute);
  plan.layers_per_stage = in.Ints("layers_per_stage");
  plan.optimizer_offload_ratio = in.Double("optimizer_offload_ratio");
  for (const MessageReader& stage : in.Children("stages")) plan.stages.push_back(ReadStage(stage));
  plan.rank_order = in.Choice<RankOrder>("rank_order");
  plan.activation_offload_ratio = in.Double("activation_offload_ratio");
  plan.whole_weights_ratio = in.Double("whole_weights_ratio");
  return plan;
}

v1::Plan ToWire(const PlanRequest& plan) {
  v1::Plan wire;
  if (plan.tensor_parallel) wire.set_tensor_parallel(*plan.tensor_parallel);
  if (plan.sequence_parallel) wire.set_sequence_parallel(*plan.sequence_parallel);
  if (plan.pipeline_parallel) wire.set_pipeline_parallel(*plan.pipeline_parallel);
  if (plan.virtual_pipeline) wire.set_virtual_pipeline(*plan.virtual_pipeline);
  if (plan.data_parallel) wire.set_data_parallel(*plan.data_parallel);
  if (plan.context_parallel) wire.set_context_parallel(*plan.context_parallel);
  if (plan.context_parallel_kind) {
    wire.set_context_parallel_kind(std::string(Word(*plan.context_parallel_kind)));
  }
  if (plan.expert_parallel) wire.set_expert_parallel(*plan.expert_parallel);
  if (plan.expert_tensor_parallel) wire.set_expert_tensor_parallel(*plan.expert_tensor_parallel);
  if (plan.micro_batch_size) wire.set_micro_batch_size(*plan.micro_batch_size);
  if (plan.zero_stage) wire.set_zero_stage(*plan.zero_stage);
  if (plan.zero_group_size) wire.set_zero_group_size(*plan.zero_group_size);
  if (plan.schedule) wire.set_schedule(std::string(Word(*plan.schedule)));
  if (plan.recompute) Fill(*plan.recompute, *wire.mutable_recompute());
  wire.mutable_layers_per_stage()->Assign(plan.layers_per_stage.begin(),
                                          plan.layers_per_stage.end());
  if (plan.optimizer_offload_ratio) {
    wire.set_optimizer_offload_ratio(*plan.optimizer_offload_ratio);
  }
  for (const StagePlan& stage : plan.stages) Fill(stage, *wire.add_stages());
  if (plan.rank_order) wire.set_rank_order(std::string(Word(*plan.rank_order)));
  if (plan.activation_offload_ratio) {
    wire.set_activation_offload_ratio(*plan.activation_offload_ratio);
  }
  if (plan.whole_weights_ratio) wire.set_whole_weights_ratio(*plan.whole_weights_ratio);
  return wire;
}

v1::Plan ToWire(const ParallelPlan& plan) { return ToWire(StatedPlan(plan)); }

}  // namespace meshwright
