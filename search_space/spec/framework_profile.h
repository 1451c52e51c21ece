#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// How a framework splits layers over pipeline stages when the plan does not say.
enum class LayerSplit {
  kEven,    // equal counts; the remainder goes to the first stages
  kByCost,  // greedy by parameters, vocabulary layers included (nanotron)
};

// What a training framework does with a model: which kernels it fuses, what it overlaps, keeps and
// shards, what a launch costs. Read from estimator/frameworks/<name>.json, where every fact has a
// source and a confidence. Chip facts live in ChipSpec, message latency in the link.
struct FrameworkProfile {
  std::string name = {};
  std::string version = {};

  // Defaults of the workload.
  Precision precision = Precision::kBf16;
  AttentionKernel attention_kernel = AttentionKernel::kFlash2;
  KernelFusion norm_kernel = KernelFusion::kFused;
  KernelFusion cross_entropy_kernel = KernelFusion::kUnfused;
  Optimizer optimizer = Optimizer::kAdam;
  GradientDtype gradient_dtype = GradientDtype::kFp32;
  std::optional<GradientDtype> bf16_gradient_dtype = {};  // where bf16 training differs
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  bool grouped_gemm = true;
  double dropout_ratio = 0.0;
  // Of LayerNorm (GPT) models, where it differs.
  std::optional<double> layernorm_dropout_ratio = {};
  Overlap overlap = {};

  // Kernels of a layer.
  bool qkv_is_one_gemm = true;
  bool gate_up_is_one_gemm = true;
  bool attention_copies_heads = false;  // to and from the attention kernel's own layout
  bool rotary_is_fused = true;
  bool activation_is_fused = true;
  bool bias_gradient_is_fused = true;          // into the GEMM that makes it
  bool gradient_accumulation_is_fused = true;  // into the GEMM of the weight gradient
  // Cast once a step, not once a micro-batch; in memory they and their transposes take the place of
  // the 16-bit ones.
  bool fp8_weights_are_kept = false;
  bool fp8_inputs_are_kept = false;         // of linear layers, for backward: 8 bits instead of 16
  double memory_bound_traffic_ratio = 1.0;  // traffic of its elementwise kernels / the fused form's
  Seconds host_per_launch = Seconds(10e-6);  // forward; the device waits when launches are slower
  double host_backward_ratio = 0.8;          // backward launch / forward launch
  Seconds host_per_recomputed_layer =
      Seconds(0);  // random-state bookkeeping of a checkpointed layer

  // Host time of a tensor-parallel collective, on top of its launch, for each of its ranks where a
  // pipeline across nodes contends with it.
  Seconds host_per_collective_rank_with_pipeline = Seconds(0);

  // Communication.
  Seconds collective_latency_per_node = Seconds(0);  // of a layer's collectives, beside the link's
  double tensor_parallel_bytes_ratio = 1.0;  // 2: all-reduce in fp32 with 16-bit activations
  // Under sequence parallelism the gathered input of a block is gathered again in backward, or
  // kept.
  bool sequence_parallel_regathers_input = true;
  bool keeps_gathered_input_without_pipeline = false;
  // In backward the gather of the input runs beside the GEMM of the input's gradient, and the
  // reduction of that gradient beside the GEMM of the weight's gradient.
  bool hides_backward_tensor_parallel = false;
  std::optional<GradientDtype> gradient_wire_dtype = {};  // of the reduction; none: the gradients'
  double gradient_bucket_exposed_ratio = 0.1;  // share of overlapped reduction that stays visible
  // Gradients and weights travel in buckets, which may grow with the ranks that share them.
  double bucket_parameters = 40e6;
  double bucket_parameters_per_rank = 0;
  bool buckets_without_overlap = true;  // false: all at once where they are not overlapped
  // A bucket is of parameters that one rank owns, and is reduced when it is full or at the end:
  // where a rank owns less than a bucket, nothing is overlapped.
  bool buckets_have_owners = false;
  bool syncs_chunk_by_chunk = false;  // interleaved: a chunk's messages beside the other chunks

  // Optimizer and step.
  double optimizer_traffic_bytes_per_parameter = 30;
  double gradient_traffic_bytes_per_parameter = 4;  // norm and clipping
  Seconds fixed_per_step = Seconds(0);

  // Memory.
  double optimizer_bytes_per_parameter = 12;     // master weights and moments
  double extra_bytes_per_parameter = 0;          // unsharded copies beside states
  double extra_sharded_bytes_per_parameter = 0;  // sharded like the optimizer states
  double extra_stored_bytes_per_hidden = 0;      // of a layer, token and hidden element, sharded
  double logit_bytes_between_micro_batches = 0;  // of the last micro-batch, still alive
  bool caches_weight_gradients = false;          // TransformerEngine's dummy weight gradients
  bool logits_are_gathered = false;              // over tensor parallel, before the loss
  double logit_stored_bytes_unfused = 6;  // transient bytes of one logit, separate loss kernels
  double logit_stored_bytes_fused = 2;
  double logit_traffic_bytes_unfused = 24;
  double logit_traffic_bytes_fused = 12;
  Bytes fixed_buffers = {};            // reduce buckets and the like
  double allocator_efficiency = 0.96;  // allocated / reserved of what comes and goes
  Bytes communicator_buffers_in_node = GiB(0.4);
  Bytes communicator_buffers_across_nodes = GiB(1.0);  // on top

  // Pipeline and sharding.
  bool pipeline_sends_shards = false;  // a tensor-parallel rank sends its share, which is gathered
  LayerSplit layer_split = LayerSplit::kEven;
  // What of a plan the framework can be told, as a search opens it.
  std::vector<Schedule> schedules = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
  std::vector<ContextParallelKind> context_parallel_kinds = {
      ContextParallelKind::kRing};                                // first: usual
  std::vector<RankOrder> rank_orders = {RankOrder::kTpCpEpDpPp};  // first: usual
  bool sizes_end_stages = false;      // layers of the first and the last stage
  bool shards_in_groups = false;      // sharding groups smaller than the data-parallel group
  bool offloads_optimizer = false;    // states of a sharded optimizer to the host, any part of them
  bool offloads_activations = false;  // of any number of layers to the host
  bool activation_offload_needs_one_stage = false;  // no pipeline
  bool recomputes_by_stage = false;  // full recomputation of a number of layers for each stage
  bool mixes_recompute = false;      // in a stage: layers fully, layers selectively, layers not
  std::vector<std::string> selective_modules = {"core_attn"};
  int largest_zero_stage_with_pipeline = 1;
  bool experts_need_sequence_parallel = false;  // when there is tensor parallelism
  // With the pipeline inside data parallelism experts are spread over tensor x context alone.
  bool experts_need_outer_pipeline = false;

  // Measured step time / estimate at the 10th and 90th percentile of runs with this framework, the
  // chip's own constants known.
  double low_time_ratio = 0.85;
  double high_time_ratio = 1.35;
  // What those runs were made on; elsewhere the ratios are an extrapolation.
  std::vector<std::string> checked_chips = {};
  int checked_device_count = 0;  // the largest
  // Which figures of the profile the interval must be wider for.
  Provenance provenance = Provenance::kAssumed;
  bool operator==(const FrameworkProfile&) const = default;
};

}  // namespace meshwright
