#include <fmt/format.h>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"

namespace meshwright {
namespace {

MoeSpec ReadMoe(const MessageReader& in) {
  return {.expert_count = in.RequiredInt("expert_count"),
          .experts_per_token = in.RequiredInt("experts_per_token"),
          .expert_ffn_hidden_size = in.RequiredInt("expert_ffn_hidden_size"),
          .shared_expert_ffn_hidden_size = in.Int("shared_expert_ffn_hidden_size").value_or(0),
          .first_dense_layer_count = in.Int("first_dense_layer_count").value_or(0),
          .imbalance_ratio = in.Double("imbalance_ratio").value_or(1.0),
          .group_count = in.Int("group_count").value_or(0),
          .groups_per_token = in.Int("groups_per_token").value_or(0),
          .router_score = in.Choice<RouterScore>("router_score"),
          .routed_scaling_factor = in.Double("routed_scaling_factor"),
          .router_bias = in.Bool("router_bias").value_or(false)};
}

RopeScaling ReadRopeScaling(const MessageReader& in) {
  return {.kind = in.Required("kind", in.Choice<RopeScalingKind>("kind")),
          .factor = in.Required("factor", in.Double("factor")),
          .original_position_count = in.Int("original_position_count").value_or(0),
          .beta_fast = in.Double("beta_fast"),
          .beta_slow = in.Double("beta_slow"),
          .mscale = in.Double("mscale"),
          .mscale_all_dim = in.Double("mscale_all_dim")};
}

MlaSpec ReadMla(const MessageReader& in) {
  return {.q_lora_rank = in.Int("q_lora_rank").value_or(0),
          .kv_lora_rank = in.RequiredInt("kv_lora_rank"),
          .qk_nope_head_dim = in.RequiredInt("qk_nope_head_dim"),
          .qk_rope_head_dim = in.RequiredInt("qk_rope_head_dim"),
          .v_head_dim = in.RequiredInt("v_head_dim"),
          .index_head_count = in.Int("index_head_count").value_or(0),
          .index_head_dim = in.Int("index_head_dim").value_or(0),
          .index_token_count = in.Int("index_token_count").value_or(0)};
}

LinearAttentionSpec ReadLinearAttention(const MessageReader& in) {
  return {.kind = in.Required("kind", in.Choice<LinearAttentionKind>("kind")),
          .key_head_count = in.RequiredInt("key_head_count"),
          .value_head_count = in.RequiredInt("value_head_count"),
          .key_head_dim = in.RequiredInt("key_head_dim"),
          .value_head_dim = in.RequiredInt("value_head_dim"),
          .convolution_size = in.Int("convolution_size").value_or(0)};
}

StateSpaceSpec ReadStateSpace(const MessageReader& in) {
  return {.head_count = in.RequiredInt("head_count"),
          .head_dim = in.RequiredInt("head_dim"),
          .group_count = in.Int("group_count").value_or(1),
          .state_size = in.RequiredInt("state_size"),
          .convolution_size = in.Int("convolution_size").value_or(0),
          .dt_rank = in.Int("dt_rank").value_or(0)};
}

LayerRun ReadRun(const MessageReader& in) {
  return {.count = in.Int("count").value_or(1),
          .kind = {.mixer = in.Choice<TokenMixer>("mixer").value_or(TokenMixer::kAttention),
                   .feed_forward =
                       in.Choice<FeedForwardKind>("feed_forward").value_or(FeedForwardKind::kDense),
                   .sliding_window = in.Int("sliding_window").value_or(0),
                   .is_chunked = in.Bool("is_chunked").value_or(false),
                   .attention_head_count = in.Int("attention_head_count").value_or(0),
                   .kv_head_count = in.Int("kv_head_count").value_or(0),
                   .head_dim = in.Int("head_dim").value_or(0),
                   .v_head_dim = in.Int("v_head_dim").value_or(0),
                   .values_are_keys = in.Bool("values_are_keys").value_or(false),
                   .ffn_hidden_size = in.Int("ffn_hidden_size").value_or(0)}};
}

// Reads what the norms, the feed-forward and attention of some models have.
void ReadForms(const MessageReader& in, ModelSpec& model) {
  model.pre_norms = in.Bool("pre_norms").value_or(true);
  model.qk_norm_spans_heads = in.Bool("qk_norm_spans_heads").value_or(false);
  model.attention_sinks = in.Bool("attention_sinks").value_or(false);
  model.parallel_feed_forward = in.Bool("parallel_feed_forward").value_or(false);
  model.glu_offset = in.Double("glu_offset").value_or(0);
  model.activation_clamp = in.Double("activation_clamp");
  model.attention_soft_cap = in.Double("attention_soft_cap");
  model.output_soft_cap = in.Double("output_soft_cap");
  model.attention_scale = in.Double("attention_scale");
  model.embedding_scale = in.Double("embedding_scale");
  model.residual_scale = in.Double("residual_scale");
  model.output_scale = in.Double("output_scale");
}

// Reads what only some models have.
void ReadStructure(const MessageReader& in, ModelSpec& model) {
  if (const auto linear = in.Child("linear_attention")) {
    model.linear_attention = ReadLinearAttention(*linear);
  }
  if (const auto space = in.Child("state_space")) model.state_space = ReadStateSpace(*space);
  for (const MessageReader& run : in.Children("layers")) model.layers.push_back(ReadRun(run));
  model.qkv_bias = in.Bool("qkv_bias").value_or(false);
  model.qk_norm = in.Bool("qk_norm").value_or(false);
  model.attention_output_gate = in.Bool("attention_output_gate").value_or(false);
  model.post_norms = in.Bool("post_norms").value_or(false);
  model.position_count = in.Int("position_count").value_or(0);
  model.rotary_base = in.Double("rotary_base");
  model.norm_epsilon = in.Double("norm_epsilon");
  if (const auto scaling = in.Child("rope_scaling")) model.rope_scaling = ReadRopeScaling(*scaling);
  ReadForms(in, model);
}

// Reads the norm and the biases, which it may imply.
void ReadNorm(const MessageReader& in, ModelSpec& model) {
  model.norm = in.Required("norm", in.Choice<NormKind>("norm"));
  model.biases = in.Choice<LinearBiases>("biases");
  if (model.biases.has_value() && !model.qkv_bias) SetBiases(*model.biases, model);
}

// The number of heads and their size have defaults that follow from other fields. If those fields
// are wrong, a default of 1 avoids a second mistake about a value that nobody stated.
void ReadHeads(const MessageReader& in, ModelSpec& model) {
  model.attention_head_count = in.RequiredInt("attention_head_count");
  const int heads = model.attention_head_count;
  model.kv_head_count = in.Int("kv_head_count").value_or(heads >= 1 ? heads : 1);
  if (const std::optional<int> head_dim = in.Int("head_dim")) {
    model.head_dim = *head_dim;
    return;
  }
  model.head_dim = 1;
  if (heads < 1 || model.hidden_size < 1) return;
  if (model.hidden_size % heads == 0) {
    model.head_dim = model.hidden_size / heads;
  } else {
    in.Add("head_dim", fmt::format("missing; required if attention_head_count {} does not divide "
                                   "hidden_size {}",
                                   heads, model.hidden_size));
  }
}

NodePoolRequest ReadPool(const MessageReader& in) {
  NodePoolRequest pool = {.name = in.Text("name").value_or(""),
                          .chip = in.Text("chip").value_or(""),
                          .node_count = in.Int("node_count"),
                          .devices_per_node = in.Int("devices_per_node"),
                          .power_limit_watts = in.Double("power_limit_watts"),
                          .physical_devices_per_node = in.Int("physical_devices_per_node")};
  if (const auto intra = in.Child("intra_node")) {
    pool.intra_node.kind = intra->Choice<LinkKind>("kind");
    if (const auto bandwidth = intra->Double("bandwidth_bytes_per_second")) {
      pool.intra_node.bandwidth = BytesPerSecond{*bandwidth};
    }
  }
  if (const auto inter = in.Child("inter_node")) {
    pool.inter_node.kind = inter->Choice<LinkKind>("kind");
    pool.inter_node.nic_count = inter->Int("nic_count");
    pool.inter_node.nic_gigabits_per_second = inter->Double("nic_gigabits_per_second");
    if (const auto latency = inter->Double("latency_seconds")) {
      pool.inter_node.latency = Seconds(*latency);
    }
  }
  if (const auto host = in.Child("host")) {
    pool.host.updated_parameters_per_second = host->Double("updated_parameters_per_second");
    pool.host.numa_domain_count = host->Int("numa_domain_count");
    if (const auto memory = host->Int64("memory_bytes")) pool.host.memory = Bytes{*memory};
    if (const auto bandwidth = host->Double("link_bandwidth_bytes_per_second")) {
      pool.host.link_bandwidth = BytesPerSecond{*bandwidth};
    }
  }
  if (const auto capacity = in.Int64("memory_capacity_bytes")) {
    pool.memory_capacity = Bytes{*capacity};
  }
  return pool;
}

}  // namespace

ModelSpec ReadModel(const MessageReader& in) {
  ModelSpec model;
  model.name = in.Text("name").value_or("model");
  model.layer_count = in.RequiredInt("layer_count");
  model.hidden_size = in.RequiredInt("hidden_size");
  if (const auto moe = in.Child("moe")) model.moe = ReadMoe(*moe);
  // A model whose every layer is routed has no dense feed-forward.
  const bool is_all_routed = model.moe.has_value() && model.moe->first_dense_layer_count == 0;
  ReadStructure(in, model);
  model.ffn_hidden_size = is_all_routed || !model.layers.empty()
                              ? in.Int("ffn_hidden_size").value_or(0)
                              : in.RequiredInt("ffn_hidden_size");
  ReadHeads(in, model);
  model.vocab_size = in.RequiredInt("vocab_size");
  model.mlp = in.Required("mlp", in.Choice<MlpKind>("mlp"));
  ReadNorm(in, model);
  model.tied_embeddings = in.Bool("tied_embeddings").value_or(false);
  if (const auto mla = in.Child("mla")) model.mla = ReadMla(*mla);
  model.sliding_window = in.Int("sliding_window").value_or(0);
  model.mtp_layer_count = in.Int("mtp_layer_count").value_or(0);
  return model;
}

WorkloadRequest ReadWorkload(const MessageReader& in) {
  WorkloadRequest workload = {
      .sequence_length = in.Int("sequence_length"),
      .global_batch_size = in.Int("global_batch_size"),
      .precision = in.Choice<Precision>("precision"),
      .attention_kernel = in.Choice<AttentionKernel>("attention_kernel"),
      .norm_kernel = in.Choice<KernelFusion>("norm_kernel"),
      .cross_entropy_kernel = in.Choice<KernelFusion>("cross_entropy_kernel"),
      .optimizer = in.Choice<Optimizer>("optimizer"),
      .gradient_dtype = in.Choice<GradientDtype>("gradient_dtype"),
      .fp8_recipe = in.Choice<Fp8Recipe>("fp8_recipe"),
      .grouped_gemm = in.Bool("grouped_gemm"),
      .dropout_ratio = in.Double("dropout_ratio")};
  if (const auto overlap = in.Child("overlap")) {
    workload.overlap = {.gradient_reduce = overlap->Bool("gradient_reduce"),
                        .parameter_gather = overlap->Bool("parameter_gather"),
                        .tensor_parallel = overlap->Bool("tensor_parallel"),
                        .pipeline_p2p = overlap->Bool("pipeline_p2p"),
                        .expert_parallel = overlap->Bool("expert_parallel"),
                        .shared_expert = overlap->Bool("shared_expert")};
  }
  if (const auto moe = in.Child("moe")) {
    workload.moe = {.dispatcher = moe->Choice<MoeDispatcher>("dispatcher"),
                    .dispatch_dtype = moe->Choice<DispatchDtype>("dispatch_dtype"),
                    .capacity_factor = moe->Double("capacity_factor")};
  }
  if (const auto framework = in.Child("framework")) {
    workload.framework_name = framework->Text("name");
    workload.framework_version = framework->Text("version");
    for (const MessageReader& fact : framework->Children("facts")) {
      workload.framework_facts.push_back({.name = fact.Required("name", fact.Text("name")),
                                          .value = fact.Required("value", fact.Text("value"))});
    }
  }
  return workload;
}

ClusterRequest ReadCluster(const MessageReader& in) {
  ClusterRequest cluster = {.name = in.Text("name").value_or("")};
  for (const MessageReader& pool : in.Children("pools")) cluster.pools.push_back(ReadPool(pool));
  if (const auto topology = in.Child("topology")) {
    cluster.topology = {.kind = topology->Choice<ClusterTopology>("kind"),
                        .nodes_per_segment = topology->Int("nodes_per_segment"),
                        .oversubscription_ratio = topology->Double("oversubscription_ratio")};
  }
  if (const auto inter_pool = in.Child("inter_pool")) {
    if (const auto bandwidth = inter_pool->Double("bandwidth_bytes_per_second_per_node")) {
      cluster.inter_pool.bandwidth_per_node = BytesPerSecond{*bandwidth};
    }
    if (const auto latency = inter_pool->Double("latency_seconds")) {
      cluster.inter_pool.latency = Seconds(*latency);
    }
  }
  for (const MessageReader& link : in.Children("pool_links")) {
    PoolLinkRequest& stated = cluster.pool_links.emplace_back();
    stated.from = link.Required("from", link.Text("from"));
    stated.to = link.Required("to", link.Text("to"));
    if (const auto bandwidth = link.Double("bandwidth_bytes_per_second_per_node")) {
      stated.bandwidth_per_node = BytesPerSecond{*bandwidth};
    }
    if (const auto latency = link.Double("latency_seconds")) stated.latency = Seconds(*latency);
    stated.path = link.Choice<LinkPath>("path");
  }
  return cluster;
}

}  // namespace meshwright
