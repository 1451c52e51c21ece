#include "cli/commands/starting_files.h"

#include <array>

namespace meshwright {
namespace {

constexpr std::string_view kModel = R"(# The model: what is trained.
#
# A config.json of the Hugging Face hub, or a folder that has one, can be given to --model instead
# of this file. Lines that begin with "#" and a field are left out; remove the "#" to state them.
# Fields without a default are required.

# Name in answers and in the history. Default: model.
name: llama-3-8b

# Number of layers.
layer_count: 32
# Width of the residual stream.
hidden_size: 4096
# Width of a dense feed-forward layer. Not required if every layer has experts.
ffn_hidden_size: 14336
# Heads of queries in each layer.
attention_head_count: 32
# Heads of keys and values (GQA, MQA). Default: attention_head_count.
kv_head_count: 8
# Size of a head. Default: hidden_size / attention_head_count.
head_dim: 128
# Rows of the embedding.
vocab_size: 128256
# Feed-forward: gelu, relu or squared_relu (two matrices), swiglu, geglu or quick_geglu (three).
mlp: swiglu
# Norm: layernorm (with biases, unless these are stated) or rmsnorm.
norm: rmsnorm
# Embedding and output layer share one matrix. Default: false.
tied_embeddings: false

# Tokens that each token attends to in every layer. Default: 0, all tokens before it.
#sliding_window: 4096
# Layers of multi-token prediction behind the last layer. Default: 0.
#mtp_layer_count: 1
# A bias on queries, keys and values only (Qwen2). Default: false.
#qkv_bias: true
# Norms of queries and keys (Qwen3). Default: false.
#qk_norm: true
# A gate on the output of attention, as wide as the queries. Default: false.
#attention_output_gate: true
# Norms after attention and feed-forward too (Gemma 2). Default: false.
#post_norms: true
# Norms before attention and feed-forward; false only with post_norms (OLMo 2). Default: true.
#pre_norms: false
# One norm for the queries of all heads and one for all keys, with qk_norm. Default: false.
#qk_norm_spans_heads: true
# Linear layers with a bias: one of none, qkv, attention, feed_forward, all. Default: all with
# layernorm, qkv with qkv_bias, else none.
#biases: all
# A learnt score of each head that takes a share of its softmax (gpt-oss). Default: false.
#attention_sinks: true
# A feed-forward that reads the input of attention (GPT-J). Default: false.
#parallel_feed_forward: true
# Added to what the gate of the feed-forward multiplies (gpt-oss: 1). Default: 0.
#glu_offset: 1.0
# Limit of the gate and of what it multiplies (gpt-oss: 7). Default: none.
#activation_clamp: 7.0
# Limits c of c tanh(x / c) of attention's scores and of the logits (Gemma 2). Default: none.
#attention_soft_cap: 50.0
#output_soft_cap: 30.0
# Factors of attention's scores (default: 1 / sqrt(head_dim)), of embeddings, of what attention and
# feed-forward add, and of the logits (default: 1). They change neither time nor memory.
#attention_scale: 0.0625
#embedding_scale: 12.0
#residual_scale: 0.22
#output_scale: 0.0625
# Learned position embeddings. Default: 0, none.
#position_count: 2048
# For the launch flags only. Default: not stated in them.
#rotary_base: 500000.0
#norm_epsilon: 1e-5
#rope_scaling:
#  # One of yarn, llama3.
#  kind: yarn
#  factor: 40.0
#  # Positions before stretching. Default: 0, not stated.
#  original_position_count: 4096
#  # Of yarn. Default: not stated.
#  beta_fast: 32.0
#  beta_slow: 1.0
#  mscale: 1.0
#  mscale_all_dim: 1.0

# Experts: routed feed-forward layers. Default: none.
#moe:
#  expert_count: 64
#  # Experts that each token is sent to.
#  experts_per_token: 6
#  # Width of one expert.
#  expert_ffn_hidden_size: 1408
#  # Width of all shared experts together. Default: 0, none.
#  shared_expert_ffn_hidden_size: 2816
#  # Leading layers with a dense feed-forward. Default: 0.
#  first_dense_layer_count: 1
#  # Tokens of the busiest expert rank / mean of all ranks, >= 1. Default: 1.
#  imbalance_ratio: 1.0
#  # Equal groups of experts, of which the router chooses some for each token. Default: 0, none.
#  group_count: 8
#  # Groups that a token's experts lie in. Default: 0.
#  groups_per_token: 4
#  # How the router chooses, for the launch flags only: softmax or sigmoid scores, a factor of the
#  # weights, and a bias of each expert.
#  router_score: sigmoid
#  routed_scaling_factor: 2.5
#  router_bias: true

# Multi-head latent attention (DeepSeek). Default: none.
#mla:
#  # Default: 0, queries are projected directly.
#  q_lora_rank: 1536
#  kv_lora_rank: 512
#  # Size of a head without and with rotary embedding, and of a value.
#  qk_nope_head_dim: 128
#  qk_rope_head_dim: 64
#  v_head_dim: 128
#  # Indexer of sparse attention: heads, their size, tokens picked. Default: 0, no indexer.
#  index_head_count: 64
#  index_head_dim: 128
#  index_token_count: 2048

# Linear attention, for layers whose mixer it is. Default: none.
#linear_attention:
#  # One of lightning, gated_delta, kimi_delta.
#  kind: gated_delta
#  key_head_count: 16
#  value_head_count: 32
#  key_head_dim: 128
#  value_head_dim: 128
#  # Tokens of the short convolution. Default: 0, none.
#  convolution_size: 4

# State spaces (Mamba), for layers whose mixer they are. Default: none.
#state_space:
#  head_count: 128
#  head_dim: 64
#  # Groups of heads that share B and C. Default: 1.
#  group_count: 8
#  state_size: 128
#  # Tokens of the short convolution. Default: 0, none.
#  convolution_size: 4
#  # Rank of the projection for the step sizes; > 0 means Mamba-1. Default: 0.
#  dt_rank: 0

# Kinds of layers, from the first layer on, repeated until there are layer_count. Default: all
# layers have attention, and experts if there are any.
#layers:
#  # Neighbouring layers of this kind. Default: 1.
#  - count: 5
#    # attention, linear_attention, state_space, attention_and_state_space or none.
#    # Default: attention.
#    mixer: attention
#    # dense, experts or none. Default: dense.
#    feed_forward: dense
#    # Tokens. Default: the model's.
#    sliding_window: 1024
#    # The window is one of fixed blocks of the sequence (Llama 4). Default: false.
#    is_chunked: false
#    # Sizes that differ from the model's. Default: the model's; of a value: head_dim.
#    attention_head_count: 32
#    kv_head_count: 8
#    head_dim: 128
#    v_head_dim: 128
#    ffn_hidden_size: 14336
#    # One projection makes keys and values. Default: false.
#    values_are_keys: false
#  - count: 1
)";

constexpr std::string_view kWorkload = R"(# The workload: how the model is trained.
#
# The first two fields are required. What is left out takes the value of the framework's profile,
# and the answer lists it as an applied default. Lines that begin with "#" and a field are left out.

# Tokens of a sequence.
sequence_length: 8192
# Sequences of one optimizer step, over all devices.
global_batch_size: 128

# bf16, fp16, fp8 or fp32.
precision: bf16

# The training framework and its version. Default: generic, without launch flags; and the newest
# version that is known. `meshwright server info` lists both.
framework:
  name: megatron-core
  #version: "0.14"
  # Facts of the framework's profile that differ here, each a name and its value as text.
  #facts: [{name: host_per_launch_seconds, value: "5e-6"}]

# unfused, fused_softmax, flash1, flash2, flash3, cudnn or vendor.
#attention_kernel: flash2
# unfused or fused.
#norm_kernel: fused
# unfused or fused.
#cross_entropy_kernel: fused
# adam, adam8bit or sgd.
#optimizer: adam
# Type in which gradients are kept and reduced: fp32, bf16 or fp16.
#gradient_dtype: fp32
# tensorwise, rowwise, blockwise, delayed or mxfp8. It counts with precision fp8 only.
#fp8_recipe: tensorwise
# The experts of a device run as one kernel.
#grouped_gemm: true
# Share of activations that dropout sets to zero, from 0 to 1.
#dropout_ratio: 0.0

# Communication that is hidden behind computation.
#overlap:
#  gradient_reduce: true
#  parameter_gather: true
#  tensor_parallel: false
#  pipeline_p2p: true
#  # Messages to experts and back, behind another micro-batch or behind the shared experts.
#  expert_parallel: false
#  shared_expert: false

# How tokens come to their experts.
#moe:
#  # allgather, alltoall, deepep or hybridep.
#  dispatcher: alltoall
#  # bf16 or fp8.
#  dispatch_dtype: bf16
#  # Most tokens of an expert, as a multiple of the mean. Default: 0, none are dropped.
#  capacity_factor: 0
)";

constexpr std::string_view kCluster = R"(# The cluster: the machines that the model is trained on.
#
# For equal nodes the flags --chip and --nodes say the same, and --cluster slurm, kubernetes or
# local ask the machines. What is left out takes the value of the chip's usual node, and the answer
# lists it as an applied default. Lines that begin with "#" and a field are left out.

# Name in answers and in the history. Default: none.
name: a100x16

# Groups of equal nodes; several pools make a mixed cluster.
pools:
  # Default: none.
  - name: a
    # Id of the chip, or a name by which its tools call it; `meshwright chip list` lists them.
    chip: nvidia-a100-sxm4-80gb
    # Number of nodes. Default: 1.
    node_count: 2
    # Devices of a node.
    devices_per_node: 8

    # Bytes of a device's memory that can be used.
    #memory_capacity_bytes: 85_899_345_920
    # Watts of a device, if it is held below its usual limit.
    #power_limit_watts: 400
    # Physical devices of a node that several devices share (CPU cores, time-sliced GPUs).
    # Default: devices_per_node.
    #physical_devices_per_node: 8

    # The fabric that joins the devices of a node.
    #intra_node:
    #  # nvlink2 to nvlink5, xgmi, hccs, pcie4, pcie5, ici, neuronlink or vendor.
    #  kind: nvlink3
    #  # Bytes per second of a device in one direction.
    #  bandwidth_bytes_per_second: 300e9

    # The network between nodes.
    #inter_node:
    #  # infiniband, roce, ethernet, omnipath, efa or vendor.
    #  kind: infiniband
    #  # NICs of a node, and the Gbit/s of each.
    #  nic_count: 8
    #  nic_gigabits_per_second: 200
    #  # Seconds of one message inside a collective. Default: 40e-6.
    #  latency_seconds: 40e-6

    # The host, which counts for optimizer states that are offloaded to it.
    #host:
    #  # Parameters per second that all processes of a node update together. Default: 1.8e9.
    #  updated_parameters_per_second: 1.8e9
    #  # Default: 2.
    #  numa_domain_count: 2
    #  # Bytes of a node's memory. Default: assumed to be as much as the node's devices have.
    #  memory_bytes: 1_000_000_000_000
    #  # Bytes per second between a device and that memory, each way. Default: the chip's.
    #  link_bandwidth_bytes_per_second: 26e9

# The network of the whole cluster.
#topology:
#  # rail_optimized, fat_tree, full_mesh, torus or single_switch. Default: rail_optimized.
#  kind: rail_optimized
#  # Nodes that reach each other at full speed. Default: 128.
#  nodes_per_segment: 128
#  # Bandwidth into a segment's switches / bandwidth out of it, >= 1. Default: 1.
#  oversubscription_ratio: 1.0

# The network between pools, for several of them.
#inter_pool:
#  # Bytes per second of a node in one direction. Default: 25e9.
#  bandwidth_bytes_per_second_per_node: 25e9
#  # Seconds of a message. Default: 30e-6.
#  latency_seconds: 30e-6

# Links of single pairs of pools that are not as inter_pool.
#pool_links:
#  - from: a
#    to: b
#    # Bytes per second of a node in one direction. Default: as inter_pool.
#    bandwidth_bytes_per_second_per_node: 25e9
#    # Seconds of a message. Default: as inter_pool.
#    latency_seconds: 30e-6
#    # direct, or host: through the memory of both hosts. Default: host between vendors, else direct.
#    path: direct
)";

constexpr std::array kFiles = {StartingFile{"model.yaml", kModel},
                               StartingFile{"workload.yaml", kWorkload},
                               StartingFile{"cluster.yaml", kCluster}};

}  // namespace

std::span<const StartingFile> StartingFiles() { return kFiles; }

}  // namespace meshwright
