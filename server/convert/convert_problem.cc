#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/convert/convert.h"

namespace meshwright {
namespace {

template <typename Enum>
std::string Text(Enum value) {
  return std::string(Word(value));
}

void Fill(const MoeSpec& moe, v1::Moe& wire) {
  wire.set_expert_count(moe.expert_count);
  wire.set_experts_per_token(moe.experts_per_token);
  wire.set_expert_ffn_hidden_size(moe.expert_ffn_hidden_size);
  wire.set_shared_expert_ffn_hidden_size(moe.shared_expert_ffn_hidden_size);
  wire.set_first_dense_layer_count(moe.first_dense_layer_count);
  wire.set_imbalance_ratio(moe.imbalance_ratio);
  if (moe.group_count > 0) {
    wire.set_group_count(moe.group_count);
    wire.set_groups_per_token(moe.groups_per_token);
  }
  if (moe.router_score) wire.set_router_score(Text(*moe.router_score));
  if (moe.routed_scaling_factor) wire.set_routed_scaling_factor(*moe.routed_scaling_factor);
  if (moe.router_bias) wire.set_router_bias(true);
}

void Fill(const RopeScaling& scaling, v1::RopeScaling& wire) {
  wire.set_kind(Text(scaling.kind));
  wire.set_factor(scaling.factor);
  if (scaling.original_position_count > 0) {
    wire.set_original_position_count(scaling.original_position_count);
  }
  if (scaling.beta_fast) wire.set_beta_fast(*scaling.beta_fast);
  if (scaling.beta_slow) wire.set_beta_slow(*scaling.beta_slow);
  if (scaling.mscale) wire.set_mscale(*scaling.mscale);
  if (scaling.mscale_all_dim) wire.set_mscale_all_dim(*scaling.mscale_all_dim);
}

void Fill(const MlaSpec& mla, v1::Mla& wire) {
  wire.set_q_lora_rank(mla.q_lora_rank);
  wire.set_kv_lora_rank(mla.kv_lora_rank);
  wire.set_qk_nope_head_dim(mla.qk_nope_head_dim);
  wire.set_qk_rope_head_dim(mla.qk_rope_head_dim);
  wire.set_v_head_dim(mla.v_head_dim);
  if (mla.index_head_count == 0) return;
  wire.set_index_head_count(mla.index_head_count);
  wire.set_index_head_dim(mla.index_head_dim);
  wire.set_index_token_count(mla.index_token_count);
}

void Fill(const LinearAttentionSpec& linear, v1::LinearAttention& wire) {
  wire.set_kind(Text(linear.kind));
  wire.set_key_head_count(linear.key_head_count);
  wire.set_value_head_count(linear.value_head_count);
  wire.set_key_head_dim(linear.key_head_dim);
  wire.set_value_head_dim(linear.value_head_dim);
  wire.set_convolution_size(linear.convolution_size);
}

void Fill(const StateSpaceSpec& space, v1::StateSpace& wire) {
  wire.set_head_count(space.head_count);
  wire.set_head_dim(space.head_dim);
  wire.set_group_count(space.group_count);
  wire.set_state_size(space.state_size);
  wire.set_convolution_size(space.convolution_size);
  wire.set_dt_rank(space.dt_rank);
}

void Fill(const LayerRun& run, v1::LayerRun& wire) {
  const LayerKind& kind = run.kind;
  wire.set_count(run.count);
  wire.set_mixer(Text(kind.mixer));
  wire.set_feed_forward(Text(kind.feed_forward));
  if (kind.sliding_window > 0) wire.set_sliding_window(kind.sliding_window);
  if (kind.is_chunked) wire.set_is_chunked(true);
  if (kind.attention_head_count > 0) wire.set_attention_head_count(kind.attention_head_count);
  if (kind.kv_head_count > 0) wire.set_kv_head_count(kind.kv_head_count);
  if (kind.head_dim > 0) wire.set_head_dim(kind.head_dim);
  if (kind.v_head_dim > 0) wire.set_v_head_dim(kind.v_head_dim);
  if (kind.values_are_keys) wire.set_values_are_keys(true);
  if (kind.ffn_hidden_size > 0) wire.set_ffn_hidden_size(kind.ffn_hidden_size);
}

void FillForms(const ModelSpec& model, v1::Model& wire) {
  if (model.biases) wire.set_biases(Text(*model.biases));
  if (!model.pre_norms) wire.set_pre_norms(false);
  if (model.qk_norm_spans_heads) wire.set_qk_norm_spans_heads(true);
  if (model.attention_sinks) wire.set_attention_sinks(true);
  if (model.parallel_feed_forward) wire.set_parallel_feed_forward(true);
  if (model.glu_offset != 0) wire.set_glu_offset(model.glu_offset);
  if (model.activation_clamp) wire.set_activation_clamp(*model.activation_clamp);
  if (model.attention_soft_cap) wire.set_attention_soft_cap(*model.attention_soft_cap);
  if (model.output_soft_cap) wire.set_output_soft_cap(*model.output_soft_cap);
  if (model.attention_scale) wire.set_attention_scale(*model.attention_scale);
  if (model.embedding_scale) wire.set_embedding_scale(*model.embedding_scale);
  if (model.residual_scale) wire.set_residual_scale(*model.residual_scale);
  if (model.output_scale) wire.set_output_scale(*model.output_scale);
}

// Fills in what only some models have. What a model does not have stays absent, so that the text of
// a question does not change.
void FillStructure(const ModelSpec& model, v1::Model& wire) {
  if (model.linear_attention) Fill(*model.linear_attention, *wire.mutable_linear_attention());
  if (model.state_space) Fill(*model.state_space, *wire.mutable_state_space());
  for (const LayerRun& run : model.layers) Fill(run, *wire.add_layers());
  if (model.qkv_bias) wire.set_qkv_bias(true);
  if (model.qk_norm) wire.set_qk_norm(true);
  if (model.attention_output_gate) wire.set_attention_output_gate(true);
  if (model.post_norms) wire.set_post_norms(true);
  if (model.position_count > 0) wire.set_position_count(model.position_count);
  if (model.rotary_base) wire.set_rotary_base(*model.rotary_base);
  if (model.norm_epsilon) wire.set_norm_epsilon(*model.norm_epsilon);
  if (model.rope_scaling) Fill(*model.rope_scaling, *wire.mutable_rope_scaling());
  FillForms(model, wire);
}

void Fill(const NodePoolRequest& pool, v1::NodePool& wire) {
  if (!pool.name.empty()) wire.set_name(pool.name);
  if (!pool.chip.empty()) wire.set_chip(pool.chip);
  if (pool.node_count) wire.set_node_count(*pool.node_count);
  if (pool.devices_per_node) wire.set_devices_per_node(*pool.devices_per_node);
  const IntraNodeRequest& intra = pool.intra_node;
  if (intra.kind) wire.mutable_intra_node()->set_kind(Text(*intra.kind));
  if (intra.bandwidth) {
    wire.mutable_intra_node()->set_bandwidth_bytes_per_second(intra.bandwidth->rate);
  }
  const InterNodeRequest& inter = pool.inter_node;
  if (inter.kind) wire.mutable_inter_node()->set_kind(Text(*inter.kind));
  if (inter.nic_count) wire.mutable_inter_node()->set_nic_count(*inter.nic_count);
  if (inter.nic_gigabits_per_second) {
    wire.mutable_inter_node()->set_nic_gigabits_per_second(*inter.nic_gigabits_per_second);
  }
  if (inter.latency) wire.mutable_inter_node()->set_latency_seconds(inter.latency->count());
  if (pool.memory_capacity) wire.set_memory_capacity_bytes(pool.memory_capacity->count);
  if (pool.power_limit_watts) wire.set_power_limit_watts(*pool.power_limit_watts);
  if (pool.physical_devices_per_node) {
    wire.set_physical_devices_per_node(*pool.physical_devices_per_node);
  }
  const HostRequest& host = pool.host;
  if (host.updated_parameters_per_second) {
    wire.mutable_host()->set_updated_parameters_per_second(*host.updated_parameters_per_second);
  }
  if (host.numa_domain_count) wire.mutable_host()->set_numa_domain_count(*host.numa_domain_count);
  if (host.memory) wire.mutable_host()->set_memory_bytes(host.memory->count);
  if (host.link_bandwidth) {
    wire.mutable_host()->set_link_bandwidth_bytes_per_second(host.link_bandwidth->rate);
  }
}

void FillOverlap(const OverlapRequest& overlap, v1::Workload& wire) {
  if (overlap == OverlapRequest()) return;
  v1::Overlap& out = *wire.mutable_overlap();
  if (overlap.gradient_reduce) out.set_gradient_reduce(*overlap.gradient_reduce);
  if (overlap.parameter_gather) out.set_parameter_gather(*overlap.parameter_gather);
  if (overlap.tensor_parallel) out.set_tensor_parallel(*overlap.tensor_parallel);
  if (overlap.pipeline_p2p) out.set_pipeline_p2p(*overlap.pipeline_p2p);
  if (overlap.expert_parallel) out.set_expert_parallel(*overlap.expert_parallel);
  if (overlap.shared_expert) out.set_shared_expert(*overlap.shared_expert);
}

void FillMoeTraining(const MoeTrainingRequest& moe, v1::Workload& wire) {
  if (moe == MoeTrainingRequest()) return;
  v1::MoeTraining& out = *wire.mutable_moe();
  if (moe.dispatcher) out.set_dispatcher(Text(*moe.dispatcher));
  if (moe.dispatch_dtype) out.set_dispatch_dtype(Text(*moe.dispatch_dtype));
  if (moe.capacity_factor) out.set_capacity_factor(*moe.capacity_factor);
}

void Fill(const PoolLinkRequest& link, v1::PoolLink& wire) {
  wire.set_from(link.from);
  wire.set_to(link.to);
  if (link.bandwidth_per_node) {
    wire.set_bandwidth_bytes_per_second_per_node(link.bandwidth_per_node->rate);
  }
  if (link.latency) wire.set_latency_seconds(link.latency->count());
  if (link.path) wire.set_path(Text(*link.path));
}

}  // namespace

v1::Model ToWire(const ModelSpec& model) {
  v1::Model wire;
  wire.set_name(model.name);
  wire.set_layer_count(model.layer_count);
  wire.set_hidden_size(model.hidden_size);
  wire.set_ffn_hidden_size(model.ffn_hidden_size);
  wire.set_attention_head_count(model.attention_head_count);
  wire.set_kv_head_count(model.kv_head_count);
  wire.set_head_dim(model.head_dim);
  wire.set_vocab_size(model.vocab_size);
  wire.set_mlp(Text(model.mlp));
  wire.set_norm(Text(model.norm));
  wire.set_tied_embeddings(model.tied_embeddings);
  if (model.moe) Fill(*model.moe, *wire.mutable_moe());
  if (model.mla) Fill(*model.mla, *wire.mutable_mla());
  wire.set_sliding_window(model.sliding_window);
  wire.set_mtp_layer_count(model.mtp_layer_count);
  FillStructure(model, wire);
  return wire;
}

v1::Workload ToWire(const WorkloadRequest& workload) {
  v1::Workload wire;
  if (workload.sequence_length) wire.set_sequence_length(*workload.sequence_length);
  if (workload.global_batch_size) wire.set_global_batch_size(*workload.global_batch_size);
  if (workload.precision) wire.set_precision(Text(*workload.precision));
  if (workload.attention_kernel) wire.set_attention_kernel(Text(*workload.attention_kernel));
  if (workload.norm_kernel) wire.set_norm_kernel(Text(*workload.norm_kernel));
  if (workload.cross_entropy_kernel) {
    wire.set_cross_entropy_kernel(Text(*workload.cross_entropy_kernel));
  }
  if (workload.optimizer) wire.set_optimizer(Text(*workload.optimizer));
  if (workload.gradient_dtype) wire.set_gradient_dtype(Text(*workload.gradient_dtype));
  if (workload.fp8_recipe) wire.set_fp8_recipe(Text(*workload.fp8_recipe));
  if (workload.grouped_gemm) wire.set_grouped_gemm(*workload.grouped_gemm);
  if (workload.dropout_ratio) wire.set_dropout_ratio(*workload.dropout_ratio);
  FillOverlap(workload.overlap, wire);
  FillMoeTraining(workload.moe, wire);
  if (workload.framework_name) wire.mutable_framework()->set_name(*workload.framework_name);
  if (workload.framework_version) {
    wire.mutable_framework()->set_version(*workload.framework_version);
  }
  for (const FrameworkFactRequest& fact : workload.framework_facts) {
    v1::FrameworkFact& stated = *wire.mutable_framework()->add_facts();
    stated.set_name(fact.name);
    stated.set_value(fact.value);
  }
  return wire;
}

v1::Cluster ToWire(const ClusterRequest& cluster) {
  v1::Cluster wire;
  if (!cluster.name.empty()) wire.set_name(cluster.name);
  for (const NodePoolRequest& pool : cluster.pools) Fill(pool, *wire.add_pools());
  const TopologyRequest& topology = cluster.topology;
  if (topology.kind) wire.mutable_topology()->set_kind(Text(*topology.kind));
  if (topology.nodes_per_segment) {
    wire.mutable_topology()->set_nodes_per_segment(*topology.nodes_per_segment);
  }
  if (topology.oversubscription_ratio) {
    wire.mutable_topology()->set_oversubscription_ratio(*topology.oversubscription_ratio);
  }
  const InterPoolRequest& inter_pool = cluster.inter_pool;
  if (inter_pool.bandwidth_per_node) {
    wire.mutable_inter_pool()->set_bandwidth_bytes_per_second_per_node(
        inter_pool.bandwidth_per_node->rate);
  }
  if (inter_pool.latency) {
    wire.mutable_inter_pool()->set_latency_seconds(inter_pool.latency->count());
  }
  for (const PoolLinkRequest& link : cluster.pool_links) Fill(link, *wire.add_pool_links());
  return wire;
}

}  // namespace meshwright
