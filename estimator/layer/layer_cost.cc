#include "estimator/layer/layer_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "estimator/terms/attention.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "estimator/terms/stream.h"
#include "estimator/terms/token_exchange.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

// Share of a collective that stays visible when it runs beside its own GEMM: the ramp of the
// pipeline of tiles and the slowdown of the GEMM. Assumed (docs/cost_model/data_parallel.md
// "Overlap").
constexpr double kHiddenCollectiveShare = 0.25;

// The same for the exchange of tokens behind another micro-batch, whose kernels slow down by the
// cores that the exchange holds (20 of 132), and which the first and last micro-batches lack.
// Assumed.
constexpr double kHiddenExchangeShare = 0.4;

// Share of a layer's GEMM time that falls on the first linear layers of its two blocks: 3 h^2 and f
// h of 4 h^2 + 2 f h, with f = 4 h.
constexpr double kFirstLinearShare = 7.0 / 12;

// Returns the traffic of casting one element: 16 bits are read and 8 bits written twice (once
// transposed). If the scale is taken from the tensor itself, it is read once more before.
double Fp8CastBytes(Fp8Recipe recipe) {
  switch (recipe) {
    case Fp8Recipe::kDelayed:    // scales of earlier steps
    case Fp8Recipe::kBlockwise:  // scales of blocks that fit on the core
    case Fp8Recipe::kMxfp8:
      return 4;
    case Fp8Recipe::kTensorwise:
    case Fp8Recipe::kRowwise:
      return 6;
  }
  std::abort();
}

// Dynamic power grows with the clock times the square of the voltage, and the voltage follows the
// clock: the clock follows the cube root of a power limit (docs/cost_model/kernels.md "Power").
constexpr double kClockPowerExponent = 1.0 / 3;

std::size_t Index(TimeCause cause) { return static_cast<std::size_t>(cause); }

void Add(PassTime& pass, TimeCause cause, Seconds time) {
  pass.by_cause[Index(cause)] += time;
  pass.device += time;
}

struct KernelTime {
  TimeCause cause;
  Seconds forward;
  Seconds backward;
  Seconds weight_gradient = Seconds(0);  // part of `backward`
};

Seconds Fp8CastTime(double elements, const LayerContext& c, const ChipSpec& chip) {
  return StreamTime(RoundedBytes(Fp8CastBytes(c.workload.fp8_recipe) * elements),
                    chip.memory_bound_efficiency, chip);
}

KernelTime PriceMatmul(const Kernel& kernel, const LayerContext& c, const ChipSpec& chip,
                       MatmulTimes& matmuls) {
  const MatmulShape& s = kernel.matmul;
  MatmulShape input_gradient = s;
  std::swap(input_gradient.n, input_gradient.k);
  MatmulShape weight_gradient = s;
  std::swap(weight_gradient.m, weight_gradient.k);
  // If a kernel of its own accumulates, the GEMM writes 16 bits.
  const bool fp32 =
      c.workload.gradient_dtype == GradientDtype::kFp32 && c.profile.gradient_accumulation_is_fused;
  KernelTime time = {
      .cause = TimeCause::kMatmul,
      .forward = matmuls.Of({.shape = s, .pass = GemmPass::kForward}),
      .backward = matmuls.Of({.shape = input_gradient, .pass = GemmPass::kInputGradient}),
      .weight_gradient = matmuls.Of(
          {.shape = weight_gradient, .pass = GemmPass::kWeightGradient, .accumulates_fp32 = fp32})};
  time.backward += time.weight_gradient;
  if (c.workload.precision == Precision::kFp8) {
    // The forward pass casts the input and, unless they are kept for the step, the weights; the
    // backward pass casts the gradient of the output.
    const double weights = c.profile.fp8_weights_are_kept ? 0 : s.k * s.n;
    time.forward += Fp8CastTime((s.m * s.k + weights) * s.count, c, chip);
    time.backward += Fp8CastTime(s.m * s.n * s.count, c, chip);
  }
  return time;
}

KernelTime PriceKernel(const Kernel& kernel, const LayerContext& c, const ChipSpec& chip,
                       MatmulTimes& matmuls) {
  switch (kernel.kind) {
    case KernelKind::kMatmul:
      return PriceMatmul(kernel, c, chip, matmuls);
    case KernelKind::kAttention: {
      DeviceRates attention = matmuls.rates();
      if (c.workload.precision == Precision::kFp8) {
        // Attention stays in 16 bits.
        attention.peak = NominalPeak(chip, Precision::kBf16).value_or(attention.peak);
      }
      const Seconds forward =
          FusedAttentionTime(kernel.attention, c.workload.attention_kernel, chip, attention);
      return {.cause = TimeCause::kAttention,
              .forward = forward,
              .backward = FusedAttentionBackwardTime(kernel.attention, c.workload.attention_kernel,
                                                     chip, attention)};
    }
    case KernelKind::kMemoryBound: {
      const double share =
          kernel.is_permutation ? chip.permutation_efficiency : chip.memory_bound_efficiency;
      const double efficiency = share / c.profile.memory_bound_traffic_ratio;
      return {.cause = TimeCause::kMemoryBound,
              .forward = StreamTime(kernel.bytes, efficiency, chip),
              .backward = StreamTime(kernel.backward_bytes, efficiency, chip)};
    }
  }
  std::abort();
}

TimeCause CauseOf(CommunicationGroup group) {
  switch (group) {
    case CommunicationGroup::kTensor:
      return TimeCause::kTensorParallel;
    case CommunicationGroup::kContextExchange:
    case CommunicationGroup::kContext:
      return TimeCause::kContextParallel;
    case CommunicationGroup::kExpert:
    case CommunicationGroup::kExpertTensor:
      return TimeCause::kExpertParallel;
  }
  std::abort();
}

const GroupShape& ShapeOf(CommunicationGroup group, const LayerSite& site) {
  switch (group) {
    case CommunicationGroup::kTensor:
      return site.groups.tensor;
    case CommunicationGroup::kContextExchange:
      return site.groups.context_exchange;
    case CommunicationGroup::kContext:
      return site.groups.context;
    case CommunicationGroup::kExpert:
      return site.groups.expert;
    case CommunicationGroup::kExpertTensor:
      return site.groups.expert_tensor;
  }
  std::abort();
}

// Counts the collectives of a group that run beside kernels in one pass.
int CountHidden(const LayerProgram& program, CommunicationGroup group, bool backward) {
  int count = 0;
  for (const Collective& collective : program.collectives) {
    if (collective.group != group) continue;
    if (collective.hidden_by_compute) {
      count += backward ? collective.backward_count : collective.forward_count;
    } else if (backward) {
      count += collective.backward_beside_gemm;
    }
  }
  return count;
}

// Returns the time of the kernels beside which one hidden collective of a pass runs. Collectives
// share it evenly: those of keys and values run beside attention, all others beside the GEMMs. A
// framework that hides them only in the backward pass does so at the first linear layer of a block,
// and without sequence parallelism only beside the weight gradient.
Seconds RoomOf(const LayerProgram& program, const Collective& collective, const LayerContext& c,
               const PassTime& pass, bool backward) {
  const int count = CountHidden(program, collective.group, backward);
  if (count == 0) return Seconds(0);
  if (collective.group == CommunicationGroup::kContext) {
    return pass.by_cause[Index(TimeCause::kAttention)] / count;
  }
  if (collective.group == CommunicationGroup::kExpert) {
    return (collective.beside_shared_experts ? pass.shared_experts : pass.device) / count;
  }
  const Seconds all = (pass.by_cause[Index(TimeCause::kMatmul)] - pass.experts) / count;
  if (collective.hidden_by_compute) return all;
  return all * kFirstLinearShare * (c.sharding.sequence_parallel ? 1 : 0.5);
}

Seconds Visible(Seconds once, Seconds room, const Collective& collective) {
  const bool is_exchange =
      collective.group == CommunicationGroup::kExpert && !collective.beside_shared_experts;
  const double least = is_exchange ? kHiddenExchangeShare : kHiddenCollectiveShare;
  return std::max(least * once, once - room);
}

Seconds OnceOf(const Collective& collective, const GroupShape& shape, const LayerSite& site) {
  if (collective.exchange.has_value()) {
    return TokenExchangeTime(*collective.exchange, shape, site.pool, site.topology);
  }
  return CollectiveTime(collective.kind, collective.bytes, shape, site.pool, site.topology);
}

// Returns the time that the host spends on one collective.
Seconds HostTime(const Collective& collective, const LayerContext& c, const GroupShape& shape) {
  Seconds host = c.profile.host_per_launch;
  if (collective.group == CommunicationGroup::kTensor) {
    if (c.sharding.pipeline_leaves_node) {
      host += c.profile.host_per_collective_rank_with_pipeline * Ranks(shape) +
              c.profile.collective_latency_per_node * (shape.nodes - 1);
    }
  }
  return host;
}

void PriceCollectives(const LayerProgram& program, const LayerContext& c, const LayerSite& site,
                      ModuleSet selective, LayerTime& cost) {
  const PassTime forward = cost.forward;  // only the kernels
  const PassTime backward = cost.backward;
  for (const Collective& collective : program.collectives) {
    const GroupShape& shape = ShapeOf(collective.group, site);
    const Seconds once =
        OnceOf(collective, shape, site) + c.profile.collective_latency_per_node * (shape.nodes - 1);
    const bool hidden = collective.hidden_by_compute;
    const Seconds beside_forward =
        hidden ? Visible(once, RoomOf(program, collective, c, forward, false), collective) : once;
    const Seconds beside_backward =
        Visible(once, RoomOf(program, collective, c, backward, true), collective);
    const int hidden_count = hidden ? collective.backward_count : collective.backward_beside_gemm;
    const TimeCause cause = CauseOf(collective.group);
    const Seconds host = HostTime(collective, c, shape);
    Add(cost.forward, cause, beside_forward * collective.forward_count);
    Add(cost.backward, cause,
        beside_backward * hidden_count + once * (collective.backward_count - hidden_count));
    if (shape.nodes > 1) {
      cost.forward.network += once * collective.forward_count;
      cost.backward.network += once * collective.backward_count;
    }
    cost.forward.host += host * collective.forward_count;
    cost.backward.host += host * c.profile.host_backward_ratio * collective.backward_count;
    if ((collective.modules & selective) != 0) {
      Add(cost.selective, cause, beside_forward * collective.forward_count);
      cost.selective.host += host * collective.forward_count;
      if (shape.nodes > 1) cost.selective.network += once * collective.forward_count;
    }
  }
}

}  // namespace

PassTime operator+(const PassTime& a, const PassTime& b) {
  PassTime sum = a;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) sum.by_cause[i] += b.by_cause[i];
  sum.device += b.device;
  sum.host += b.host;
  sum.experts += b.experts;
  sum.weight_gradient += b.weight_gradient;
  sum.network += b.network;
  return sum;
}

void AddScaled(PassTime& sum, const PassTime& part, double n) {
  if (n <= 0) return;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) sum.by_cause[i] += n * part.by_cause[i];
  sum.device += n * part.device;
  sum.host += n * part.host;
  sum.weight_gradient += n * part.weight_gradient;
  sum.network += n * part.network;
}

LayerGroups PlaceLayerGroups(const LayerSharding& s, const NodePool& pool) {
  const int g = ScaleUpDeviceCount(pool);
  const int exchange = ExchangeRanks(s);
  return {
      .tensor = PlaceGroup(s.tensor_parallel, 1, g),
      .context_exchange = PlaceGroup(exchange, s.tensor_parallel, g),
      .context = PlaceGroup(s.context_parallel / exchange, s.tensor_parallel * exchange, g),
      .expert = s.expert_group.value_or(PlaceGroup(s.expert_parallel, s.expert_tensor_parallel, g)),
      .expert_tensor = PlaceGroup(s.expert_tensor_parallel, 1, g)};
}

LayerSite PlaceLayer(const LayerSharding& s, const NodePool& pool, const Topology& topology,
                     MatmulTimes& matmuls) {
  return {
      .pool = pool, .topology = topology, .matmuls = matmuls, .groups = PlaceLayerGroups(s, pool)};
}

DeviceRates RatesOf(const NodePool& pool, const Workload& workload) {
  const ChipSpec& chip = pool.chip;
  DeviceRates rates;
  rates.peak = NominalPeak(chip, workload.precision).value_or(FlopsPerSecond{1});
  rates.element_bytes = workload.precision == Precision::kFp8    ? 1
                        : workload.precision == Precision::kFp32 ? 4
                                                                 : 2;
  rates.sustained_time_ratio = chip.sustained_time_ratio;
  rates.vector_peak = chip.vector_peak;
  rates.precision = workload.precision;
  if (pool.power_limit_watts > 0 && pool.power_limit_watts < chip.power_limit_watts) {
    rates.power_time_ratio =
        std::pow(chip.power_limit_watts / pool.power_limit_watts, kClockPowerExponent);
  }
  return rates;
}

LayerTime PriceProgram(const LayerProgram& program, const LayerContext& c, const LayerSite& site,
                       ModuleSet selective, std::optional<TimeCause> cause_override) {
  LayerTime cost;
  const Seconds launch = c.profile.host_per_launch;
  for (const Kernel& kernel : program.kernels) {
    const KernelTime time = PriceKernel(kernel, c, site.pool.chip, site.matmuls);
    const TimeCause cause = cause_override.value_or(time.cause);
    Add(cost.forward, cause, time.forward);
    Add(cost.backward, cause, time.backward);
    cost.backward.weight_gradient += time.weight_gradient;
    if (kernel.kind == KernelKind::kMatmul && kernel.is_expert) {
      cost.forward.experts += time.forward;
      cost.backward.experts += time.backward;
      if (kernel.matmul.is_grouped) {
        const Seconds one_by_one = c.profile.host_per_expert_gemm * kernel.matmul.count;
        cost.forward.host += one_by_one;
        cost.backward.host += 2 * one_by_one;
      }
    }
    if ((kernel.modules & kSharedExperts) != 0) {
      cost.forward.shared_experts += time.forward;
      cost.backward.shared_experts += time.backward;
    }
    cost.forward.host += launch * kernel.launches;
    cost.backward.host += launch * c.profile.host_backward_ratio * kernel.backward_launches;
    if ((kernel.modules & selective) != 0) {
      Add(cost.selective, TimeCause::kRecompute, time.forward);
      cost.selective.host += launch * kernel.launches;
    }
  }
  PriceCollectives(program, c, site, selective, cost);
  cost.full.host = cost.forward.host + c.profile.host_per_recomputed_layer;
  cost.full.network = cost.forward.network;
  // Recomputed kernels count as recomputation, their collectives under their own cause.
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    const auto cause = static_cast<TimeCause>(i);
    const bool communicates = cause == TimeCause::kTensorParallel ||
                              cause == TimeCause::kContextParallel ||
                              cause == TimeCause::kExpertParallel;
    Add(cost.full, communicates ? cause : TimeCause::kRecompute, cost.forward.by_cause[i]);
  }
  return cost;
}

LayerStore StoreOf(const LayerProgram& program, const LayerContext& c, ModuleSet selective) {
  LayerStore store = {.full = LayerInputBytes(c)};
  for (const Kernel& kernel : program.kernels) {
    store.all += kernel.stored_bytes;
    if ((kernel.modules & selective) == 0) store.selective += kernel.stored_bytes;
  }
  return store;
}

}  // namespace meshwright
