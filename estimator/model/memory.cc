#include "estimator/model/memory.h"

#include <algorithm>
#include <cstdlib>

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Layers whose offloaded activations are on the device: the one that runs and the one that is
// copied (TransformerEngine's double buffer).
constexpr double kBufferedLayers = 2;

// Layers whose gathered weights are alive under ZeRO-3: the one that runs and the one prefetched.
constexpr double kGatheredLayers = 2;

struct Activations {
  Bytes stored = {};      // one micro-batch on the stage
  Bytes recomputed = {};  // working set of recomputing one layer
};

Activations StoredBy(const Stage& s) {
  const UnitCosts& unit = *s.devices->unit;
  const auto sum = [](const LayerStore& store, int layers, int full, int selective) {
    return store.all * (layers - full - selective) + store.full * full +
           store.selective * selective;
  };
  const RecomputedKinds kinds = RecomputedKindsOf(s);
  Activations a;
  a.stored = sum(unit.mtp, s.mtp_layers, 0, s.selective_mtp_layers);
  for (std::size_t i = 0; i < unit.kinds.size(); ++i) {
    a.stored += sum(unit.kinds[i].store, s.layers[i], kinds.full[i], kinds.selective[i]);
  }
  const auto working = [&](const KindCosts& kind) {
    const LayerStore& store = kind.store;
    return s.recomputed_layers > 0 ? store.all : store.all - store.selective;
  };
  // It is that of the stage's largest layer, whichever layers recompute, so that more recomputation
  // never needs more memory.
  if (s.recomputed_layers > 0 || s.selective_layers > 0) {
    a.recomputed = LargestOf(s, working);
  }
  return a;
}

// Returns the bytes kept for the backward pass of all micro-batches in flight. Offload saves
// nothing until it exceeds its buffers. These have the size of the stage's largest layer, whichever
// layers are offloaded, so that more offload never needs more memory.
Bytes KeptOnDevice(const Stage& s, Bytes stored, double in_flight) {
  const Bytes kept = Scale(stored, in_flight);
  if (s.offloaded_layers == 0) return kept;
  const Bytes largest = LargestOf(s, [](const KindCosts& kind) { return kind.store.all; });
  const Bytes on_host = Scale(OffloadedBytes(s), in_flight) - Scale(largest, kBufferedLayers);
  return kept - std::max(on_host, Bytes{0});
}

double LargestLayer(const Stage& s) {
  return LargestOf(s,
                   [](const KindCosts& kind) { return kind.parameters + kind.expert_parameters; });
}

// Returns the parameters of whole copies that are not part of a rank's own shards.
double BesideShards(const StageParameters& p, const StateSharding& sharding) {
  return p.dense * (1 - 1.0 / sharding.dense_group) + p.expert * (1 - 1.0 / sharding.expert_group);
}

// Returns the gathered weights, one gathered gradient and the gathered vocabulary matrix of ZeRO-3.
// If the last layers stay whole too, nothing is left to gather. The gathered weights shrink no
// faster than the whole ones grow without the allocator's gaps, so that more whole layers never
// need less memory.
double GatheredBytes(const Stage& s, const StateBytes& bytes, double whole, double layers,
                     double efficiency) {
  const UnitCosts& unit = *s.devices->unit;
  double gathered = LargestLayer(s) * (kGatheredLayers * bytes.weight + bytes.gradient);
  const double two = kGatheredLayers * LargestLayer(s);
  gathered -=
      bytes.weight * std::max(0.0, efficiency * whole - std::max(0.0, efficiency * layers - two));
  if (s.has_embedding || s.has_head) gathered += bytes.weight * unit.vocabulary_parameters;
  return gathered;
}

Bytes Transient(const Stage& s, const Activations& activations) {
  const UnitCosts& unit = *s.devices->unit;
  const Bytes layer =
      LargestOf(s, [](const KindCosts& kind) { return kind.transient; }) + activations.recomputed;
  return s.has_head ? std::max(layer, unit.head_transient) : layer;
}

double CachedElements(const Stage& s) {
  const UnitCosts& unit = *s.devices->unit;
  return LargestOf(s, [](const KindCosts& kind) { return kind.distinct_elements; }) +
         (s.has_head ? unit.vocabulary_parameters : 0);
}

}  // namespace

StateBytes BytesPerParameter(const Workload& workload, const FrameworkProfile& profile) {
  StateBytes bytes;
  const bool is_fp32 = workload.gradient_dtype == GradientDtype::kFp32;
  bytes.gradient = is_fp32 ? 4 : 2;
  // If a kernel of its own adds them up, autograd's 16-bit gradients lie beside the sums.
  bytes.unsharded = profile.extra_bytes_per_parameter;
  if (is_fp32 && !profile.gradient_accumulation_is_fused) bytes.autograd = 2;
  // Only 16-bit gradients have sharded copies in fp32.
  if (!is_fp32) bytes.sharded_copies = profile.extra_sharded_bytes_per_parameter;
  bytes.optimizer = profile.optimizer_bytes_per_parameter;
  const GradientDtype reduced = profile.gradient_wire_dtype.value_or(workload.gradient_dtype);
  bytes.reduced_gradient = reduced == GradientDtype::kFp32 ? 4 : 2;
  if (workload.precision == Precision::kFp8 && profile.fp8_weights_are_kept) {
    // The 8-bit weights and their transpose replace the 16-bit ones if ZeRO shards the master copy
    // (--fp8-param-gather); otherwise they lie beside them. MXFP8 scales rows and columns
    // separately, so its weights are gathered in 16 bits (NVIDIA TransformerEngine, Megatron-Core).
    bytes.fp8_copies = 2;
    bytes.gathered_weight = workload.fp8_recipe == Fp8Recipe::kMxfp8 ? 2 : 1;
  }
  if (workload.precision == Precision::kFp32) {
    bytes.weight = bytes.gathered_weight = bytes.reduced_gradient = 4;
    bytes.optimizer -= 4;  // the weights are the master copy
  }
  switch (workload.optimizer) {
    case Optimizer::kAdam:
      break;
    case Optimizer::kAdam8bit:
      bytes.optimizer -= 6;  // two moments of one byte
      break;
    case Optimizer::kSgd:
      bytes.optimizer -= 4;  // one moment
      break;
  }
  return bytes;
}

double InFlight(Schedule schedule, int index, int stage_count, int virtual_stages,
                int micro_batches) {
  if (stage_count == 1 && schedule != Schedule::kGpipe) return 1;
  switch (schedule) {
    case Schedule::kGpipe:
      return micro_batches;
    case Schedule::kInterleaved1f1b: {
      // Chunks in flight: the warm-up of the stage plus one (Narayanan et al. 2021, arXiv
      // 2104.04473).
      const int chunks = 2 * (stage_count - index - 1) + (virtual_stages - 1) * stage_count + 1;
      return static_cast<double>(std::min(chunks, micro_batches * virtual_stages)) / virtual_stages;
    }
    case Schedule::k1f1b:
      return std::min(micro_batches, stage_count - index);
    case Schedule::kZbH1:
    case Schedule::kZbV:
      return std::min(micro_batches, stage_count);
    case Schedule::kDualpipeV:
      return std::min(micro_batches, stage_count + 1);
    case Schedule::kDualpipe:  // one direction, which has half of the micro-batches
    case Schedule::kChimera:
      return std::min((micro_batches + 1) / 2, stage_count - index);
  }
  std::abort();
}

StageMemory ScaledMemory(StageMemory memory, double ratio) {
  memory.peak = Scale(memory.peak, ratio);
  for (Bytes& part : memory.breakdown) part = Scale(part, ratio);
  return memory;
}

StageMemory MemoryOf(const Stage& s, double in_flight, const StateBytes& bytes,
                     const EstimatorProblem& problem) {
  const FrameworkProfile& profile = problem.profile;
  const StageDevices& devices = *s.devices;
  const StateSharding& sharding = devices.states;
  const StageParameters& p = s.parameters;
  const auto divided = [&](int stage) {
    const bool is_sharded = sharding.zero_stage >= stage;
    return p.dense / (is_sharded ? sharding.dense_group : 1) +
           p.expert / (is_sharded ? sharding.expert_group : 1);
  };
  const double whole = sharding.zero_stage == 3 ? BesideShards(WholeParametersOf(s), sharding) : 0;
  const Activations activations = StoredBy(s);
  double transient = static_cast<double>(Transient(s, activations).count);
  if (sharding.zero_stage >= 2) transient += bytes.autograd * LargestLayer(s);
  if (sharding.zero_stage == 3) {
    const double layers =
        BesideShards({.dense = p.dense - p.vocabulary, .expert = p.expert}, sharding);
    transient += GatheredBytes(s, bytes, whole, layers, profile.allocator_efficiency);
  }
  const int sequences = devices.data_parallel * devices.directions *
                        devices.sharding.micro_batch_size;  // in one micro-batch of all ranks
  if (s.has_head && problem.workload.global_batch_size > sequences) {
    transient += static_cast<double>(devices.unit->old_logits.count);
  }
  const double copies = sharding.zero_stage >= 1 ? bytes.sharded_copies : 0;
  const double optimizer = bytes.optimizer * (1 - sharding.offload_ratio) + copies;
  double cache = static_cast<double>(profile.fixed_buffers.count);
  if (profile.caches_weight_gradients) cache += 2 * CachedElements(s);

  StageMemory memory;
  auto& line = memory.breakdown;
  const double fp8_copies = sharding.zero_stage == 0 ? bytes.fp8_copies : 0;
  line[static_cast<std::size_t>(MemoryKind::kWeights)] =
      RoundedBytes(bytes.weight * (divided(3) + whole) + bytes.unsharded * (p.dense + p.expert) +
                   fp8_copies * (p.dense - p.vocabulary + p.expert));
  // Sharded gradients are reduced as soon as a layer has them, so only one layer's are whole.
  line[static_cast<std::size_t>(MemoryKind::kGradients)] =
      RoundedBytes((bytes.gradient + bytes.autograd) * divided(2));
  line[static_cast<std::size_t>(MemoryKind::kOptimizerStates)] =
      RoundedBytes(optimizer * divided(1));
  line[static_cast<std::size_t>(MemoryKind::kActivations)] =
      KeptOnDevice(s, activations.stored, in_flight);
  line[static_cast<std::size_t>(MemoryKind::kTransient)] = RoundedBytes(transient);
  line[static_cast<std::size_t>(MemoryKind::kFrameworkCache)] = RoundedBytes(cache);
  for (const Bytes& part : line) memory.peak += part;
  return memory;
}

}  // namespace meshwright
