#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// The rule by which a framework splits layers over pipeline stages if the plan does not say.
enum class LayerSplit {
  kEven,    // equal counts; the remainder goes to the first stages
  kByCost,  // greedy by parameters, vocabulary layers included (nanotron)
};

// The behaviour of a training framework: which kernels it fuses, what it overlaps, keeps and
// shards, and how much a launch costs. It is read from estimator/frameworks/<name>.json, where
// every fact has a source and a confidence. Facts about chips are in ChipSpec, and message latency
// is in the link.
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
  std::optional<GradientDtype> bf16_gradient_dtype = {};  // if bf16 training differs
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  bool grouped_gemm = true;
  double dropout_ratio = 0.0;
  // The ratio of LayerNorm (GPT) models, if it differs.
  std::optional<double> layernorm_dropout_ratio = {};
  Overlap overlap = {};
  // DeepEP and HybridEP run only where devices are joined by NVLink; elsewhere all-to-all is usual.
  MoeTraining moe = {};

  // Kernels of a layer.
  bool qkv_is_one_gemm = true;
  bool gate_up_is_one_gemm = true;
  bool attention_copies_heads = false;  // to and from the attention kernel's own layout
  bool rotary_is_fused = true;
  bool activation_is_fused = true;
  bool bias_gradient_is_fused = true;          // into the GEMM that makes it
  bool gradient_accumulation_is_fused = true;  // into the GEMM of the weight gradient
  // FP8 weights are cast once per step, not once per micro-batch. In memory they and their
  // transposes replace the 16-bit ones.
  bool fp8_weights_are_kept = false;
  bool fp8_inputs_are_kept = false;  // inputs of linear layers, for backward: 8 bits instead of 16
  double memory_bound_traffic_ratio = 1.0;   // elementwise kernels' traffic / the fused form's
  Seconds host_per_launch = Seconds(10e-6);  // forward; the device waits when launches are slower
  double host_backward_ratio = 0.8;          // backward launch / forward launch
  Seconds host_per_recomputed_layer =
      Seconds(0);  // random-state bookkeeping of a checkpointed layer

  // Operations that the host launches to route tokens, and to put them in the order of their
  // experts and back, forward.
  int routing_launches = 12;
  // Host time of each expert's product in a grouped GEMM that launches them one by one; 0: it is
  // one kernel.
  Seconds host_per_expert_gemm = Seconds(0);

  // Host time of a tensor-parallel collective, in addition to its launch, per rank of the
  // collective, if a pipeline across nodes contends with it.
  Seconds host_per_collective_rank_with_pipeline = Seconds(0);

  // Communication.
  Seconds collective_latency_per_node = Seconds(0);  // per layer's collective, beside the link's
  double tensor_parallel_bytes_ratio = 1.0;  // 2: all-reduce in fp32 with 16-bit activations
  // Under sequence parallelism the gathered input of a block is gathered again in backward (true)
  // or kept (false).
  bool sequence_parallel_regathers_input = true;
  bool keeps_gathered_input_without_pipeline = false;
  // In backward the gather of the input overlaps the GEMM of the input's gradient, and the
  // reduction of that gradient overlaps the GEMM of the weight's gradient.
  bool hides_backward_tensor_parallel = false;
  // overlap.tensor_parallel is about sequence parallelism only; without it, nothing is overlapped.
  bool overlaps_only_sequence_parallel = false;
  // The type on the wire during the reduction; nullopt: the gradients' own type.
  std::optional<GradientDtype> gradient_wire_dtype = {};
  double gradient_bucket_exposed_ratio = 0.1;  // share of overlapped reduction that stays visible
  // Gradients and weights travel in buckets, which may grow with the number of ranks that share
  // them.
  double bucket_parameters = 40e6;
  double bucket_parameters_per_rank = 0;
  bool buckets_without_overlap = true;  // false: all in one message if not overlapped
  // A bucket holds parameters that one rank owns, and is reduced when it is full or at the end. If
  // a rank owns less than a bucket, nothing is overlapped.
  bool buckets_have_owners = false;
  // overlap.pipeline_p2p is about interleaved stages only; others send and receive synchronously.
  bool overlaps_only_interleaved_sends = false;
  bool syncs_chunk_by_chunk = false;  // interleaved: one chunk's messages overlap the other chunks

  // Optimizer and step.
  double optimizer_traffic_bytes_per_parameter = 30;
  double gradient_traffic_bytes_per_parameter = 4;  // norm and clipping
  Seconds fixed_per_step = Seconds(0);

  // Memory.
  double optimizer_bytes_per_parameter = 12;     // master weights and moments
  double extra_bytes_per_parameter = 0;          // unsharded copies in addition to the states
  double extra_sharded_bytes_per_parameter = 0;  // sharded like the optimizer states
  double extra_stored_bytes_per_hidden = 0;      // per hidden element of a layer and token, sharded
  double logit_bytes_between_micro_batches =
      0;                                  // logits of the last micro-batch that are still alive
  bool caches_weight_gradients = false;   // TransformerEngine's dummy weight gradients
  bool logits_are_gathered = false;       // gathered over tensor parallelism before the loss
  double logit_stored_bytes_unfused = 6;  // transient bytes per logit, with separate loss kernels
  double logit_stored_bytes_fused = 2;
  double logit_traffic_bytes_unfused = 24;
  double logit_traffic_bytes_fused = 12;
  Bytes fixed_buffers = {};            // reduce buckets and similar
  double allocator_efficiency = 0.96;  // allocated / reserved, for memory that comes and goes
  Bytes communicator_buffers_in_node = GiB(0.4);
  Bytes communicator_buffers_across_nodes = GiB(1.0);  // in addition to those in the node

  // Pipeline and sharding.
  // A tensor-parallel rank sends its share, and the receivers gather the shares.
  bool pipeline_sends_shards = false;
  LayerSplit layer_split = LayerSplit::kEven;
  // The parts of a plan that the framework can be configured with, as a search opens them.
  std::vector<Schedule> schedules = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
  std::vector<ContextParallelKind> context_parallel_kinds = {
      ContextParallelKind::kRing};                                // the first is usual
  std::vector<RankOrder> rank_orders = {RankOrder::kTpCpEpDpPp};  // the first is usual
  bool sizes_end_stages = false;      // layers of the first and the last stage
  bool shards_weights_first = false;  // its guides shard the weights before they split tensors
  bool shards_in_groups = false;      // sharding groups smaller than the data-parallel group
  bool offloads_optimizer = false;    // any part of the states of a sharded optimizer, to the host
  bool offloads_activations = false;  // activations of any number of layers, to the host
  bool activation_offload_needs_one_stage = false;  // only without a pipeline
  bool recomputes_by_stage = false;  // full recomputation of a different number of layers per stage
  bool mixes_recompute = false;  // within a stage: some layers fully, some selectively, some not
  std::vector<std::string> selective_modules = {"core_attn"};
  int largest_zero_stage_with_pipeline = 1;
  bool experts_need_sequence_parallel = false;  // when there is tensor parallelism
  // With the pipeline inside data parallelism, experts are spread only over tensor x context.
  bool experts_need_outer_pipeline = false;

  std::vector<std::string> chip_vendors = {};  // of the only chips that it runs on; empty: any

  // Measured step time / estimate, at the 10th and 90th percentile of runs with this framework on
  // chips whose own constants are known.
  double low_time_ratio = 0.85;
  double high_time_ratio = 1.35;
  // The chips and the device count of those runs; beyond them the ratios are an extrapolation.
  std::vector<std::string> checked_chips = {};
  int checked_device_count = 0;  // the largest
  // The provenance of the profile's figures, by which the interval must be wider.
  Provenance provenance = Provenance::kAssumed;
  bool operator==(const FrameworkProfile&) const = default;
};

}  // namespace meshwright
