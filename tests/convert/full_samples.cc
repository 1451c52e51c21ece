#include "tests/convert/full_samples.h"

#include <google/protobuf/descriptor.h>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

ModelSpec FullModel() {
  return {.name = "m",
          .layer_count = 6,
          .hidden_size = 512,
          .ffn_hidden_size = 1024,
          .attention_head_count = 8,
          .kv_head_count = 4,
          .head_dim = 32,
          .vocab_size = 1000,
          .mlp = MlpKind::kGeglu,
          .norm = NormKind::kLayernorm,
          .tied_embeddings = true,
          .moe = MoeSpec{.expert_count = 8,
                         .experts_per_token = 2,
                         .expert_ffn_hidden_size = 256,
                         .shared_expert_ffn_hidden_size = 128,
                         .first_dense_layer_count = 0,  // the layers below say which are dense
                         .imbalance_ratio = 1.25,
                         .group_count = 4,
                         .groups_per_token = 2,
                         .router_score = RouterScore::kSigmoid,
                         .routed_scaling_factor = 2.5,
                         .router_bias = true},
          .mla = MlaSpec{.q_lora_rank = 96,
                         .kv_lora_rank = 64,
                         .qk_nope_head_dim = 24,
                         .qk_rope_head_dim = 8,
                         .v_head_dim = 16,
                         .index_head_count = 2,
                         .index_head_dim = 12,
                         .index_token_count = 100},
          .sliding_window = 128,
          .mtp_layer_count = 1,
          .linear_attention = LinearAttentionSpec{.kind = LinearAttentionKind::kLightning,
                                                  .key_head_count = 8,
                                                  .value_head_count = 16,
                                                  .key_head_dim = 20,
                                                  .value_head_dim = 28,
                                                  .convolution_size = 3},
          .state_space = StateSpaceSpec{.head_count = 16,
                                        .head_dim = 48,
                                        .group_count = 2,
                                        .state_size = 40,
                                        .convolution_size = 5,
                                        .dt_rank = 7},
          .layers = {{.count = 3,
                      .kind = {.mixer = TokenMixer::kAttentionAndStateSpace,
                               .feed_forward = FeedForwardKind::kExperts,
                               .sliding_window = 64,
                               .is_chunked = true,
                               .attention_head_count = 24,
                               .kv_head_count = 12,
                               .head_dim = 36,
                               .v_head_dim = 44,
                               .values_are_keys = true,
                               .ffn_hidden_size = 320}}},
          .qkv_bias = true,
          .qk_norm = true,
          .attention_output_gate = true,
          .post_norms = true,
          .position_count = 2048,
          .rotary_base = 5e5,
          .norm_epsilon = 1e-6,
          .rope_scaling = RopeScaling{.kind = RopeScalingKind::kLlama3,
                                      .factor = 8,
                                      .original_position_count = 4096,
                                      .beta_fast = 33,
                                      .beta_slow = 2,
                                      .mscale = 0.75,
                                      .mscale_all_dim = 0.5},
          .biases = LinearBiases::kAttention,
          .pre_norms = false,
          .qk_norm_spans_heads = true,
          .attention_sinks = true,
          .parallel_feed_forward = true,
          .glu_offset = 1,
          .activation_clamp = 7,
          .attention_soft_cap = 50,
          .output_soft_cap = 30,
          .attention_scale = 0.0625,
          .embedding_scale = 12,
          .residual_scale = 0.25,
          .output_scale = 0.125};
}

WorkloadRequest FullWorkload() {
  return {.sequence_length = 1024,
          .global_batch_size = 64,
          .precision = Precision::kFp16,
          .attention_kernel = AttentionKernel::kCudnn,
          .norm_kernel = KernelFusion::kFused,
          .cross_entropy_kernel = KernelFusion::kUnfused,
          .optimizer = Optimizer::kSgd,
          .gradient_dtype = GradientDtype::kBf16,
          .fp8_recipe = Fp8Recipe::kMxfp8,
          .grouped_gemm = false,
          .dropout_ratio = 0.1,
          .overlap = {.gradient_reduce = true,
                      .parameter_gather = false,
                      .tensor_parallel = true,
                      .pipeline_p2p = false,
                      .expert_parallel = true,
                      .shared_expert = false},
          .framework_name = "megatron-core",
          .framework_version = "0.14",
          .framework_facts = {{.name = "host_per_launch_seconds", .value = "4e-5"}},
          .moe = {.dispatcher = MoeDispatcher::kHybridep,
                  .dispatch_dtype = DispatchDtype::kFp8,
                  .capacity_factor = 1.25}};
}

ClusterRequest FullCluster() {
  const NodePoolRequest pool = {
      .name = "a",
      .chip = "nvidia-a100-sxm4-80gb",
      .node_count = 2,
      .devices_per_node = 4,
      .intra_node = {.kind = LinkKind::kNvlink3, .bandwidth = BytesPerSecond{3e11}},
      .inter_node = {.kind = LinkKind::kRoce,
                     .nic_count = 4,
                     .nic_gigabits_per_second = 100.5,
                     .latency = Seconds(1e-5)},
      .memory_capacity = Bytes{85'899'345'920},
      .power_limit_watts = 350};
  NodePoolRequest second = {.name = "b", .chip = "nvidia-a100-sxm4-80gb", .node_count = 1};
  return {.name = "c",
          .pools = {pool, second},
          .topology = {.kind = ClusterTopology::kFatTree,
                       .nodes_per_segment = 16,
                       .oversubscription_ratio = 1.5},
          .inter_pool = {.bandwidth_per_node = BytesPerSecond{25e9}, .latency = Seconds(3e-5)},
          .pool_links = {{.from = "a",
                          .to = "b",
                          .bandwidth_per_node = BytesPerSecond{5e9},
                          .latency = Seconds(5e-5),
                          .path = LinkPath::kHost}}};
}

ParallelPlan FullPlan() {
  const RecomputePlan recompute = {.granularity = RecomputeGranularity::kSelective,
                                   .layer_counts = {1, 2},
                                   .modules = {"core_attn"},
                                   .selective_layer_counts = {2, 1}};
  const StagePlan stage = {.pool = "a",
                           .node_count = 2,
                           .tensor_parallel = 3,
                           .data_parallel = 4,
                           .context_parallel = 5,
                           .layer_count = 6,
                           .micro_batch_size = 7,
                           .recompute = recompute,
                           .device_count = 8};
  return {.tensor_parallel = 2,
          .sequence_parallel = true,
          .pipeline_parallel = 3,
          .virtual_pipeline = 4,
          .data_parallel = 5,
          .context_parallel = 6,
          .context_parallel_kind = ContextParallelKind::kHybrid,
          .expert_parallel = 7,
          .expert_tensor_parallel = 8,
          .micro_batch_size = 9,
          .zero_stage = 2,
          .zero_group_size = 10,
          .schedule = Schedule::kZbH1,
          .recompute = recompute,
          .layers_per_stage = {3, 3},
          .optimizer_offload_ratio = 0.25,
          .stages = {stage},
          .rank_order = RankOrder::kTpCpEpPpDp,
          .activation_offload_ratio = 0.75,
          .whole_weights_ratio = 0.5,
          .pools = {"a"},
          .replica_groups = {{.replica_count = 2, .micro_batch_count = 3, .stages = {stage}}}};
}

bool IsShorthand(const FieldDescriptor& field) {
  return field.full_name() == "meshwright.v1.StagePlan.count";
}

std::vector<std::string> UnsetFields(const Message& message) {
  std::vector<std::string> unset;
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (IsShorthand(field)) continue;
    const bool is_set = field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                                            : reflection.HasField(message, &field);
    if (!is_set) unset.push_back(field.full_name());
    if (!is_set || field.is_map() || field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    for (const std::string& inner :
         UnsetFields(field.is_repeated() ? reflection.GetRepeatedMessage(message, &field, 0)
                                         : reflection.GetMessage(message, &field))) {
      unset.push_back(inner);
    }
  }
  return unset;
}

RunCost FullRunCost() {
  return {.step_count = 10,
          .days = 2,
          .low_days = 1.5,
          .high_days = 2.5,
          .device_hours = 384,
          .max_device_energy_kilowatt_hours = 268.8,
          .price = 768,
          .is_within_max_days = true};
}

Estimate SampleEstimate() {
  Estimate estimate = {.step_time = Seconds(2),
                       .step_time_low = Seconds(1.5),
                       .step_time_high = Seconds(2.5),
                       .tokens_per_second_per_device = 100,
                       .model_flops_utilization = 0.5,
                       .peak_memory = Bytes{10},
                       .reserved_memory = Bytes{11},
                       .memory_capacity = Bytes{12},
                       .fits = true,
                       .fit_probability = 0.9,
                       .stage_memory = {{.peak = Bytes{9}}, {.peak = Bytes{10}}},
                       .stages = {{.pool = "a",
                                   .replica_group = 1,
                                   .forward = Seconds(1),
                                   .backward = Seconds(2),
                                   .messages = Seconds(3),
                                   .reserved_memory = Bytes{4},
                                   .memory_capacity = Bytes{5},
                                   .fits = true,
                                   .idle_ratio = 0.5}},
                       .idle_nodes_by_pool = {{"a", 1}},
                       .tier = Tier::kSimulated,
                       .provenance = Provenance::kFitted,
                       .applied_defaults = {{.field = "f", .value = "v", .source = "s"}},
                       .warnings = {"w"}};
  estimate.breakdown[0] = Seconds(2);
  estimate.breakdown_provenance[TimeCause::kMatmul] = Provenance::kFitted;
  estimate.uncertainty_ratio_by_source["framework"] = 1;
  estimate.memory_breakdown[1] = Bytes{10};
  return estimate;
}

}  // namespace meshwright
