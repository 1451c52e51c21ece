#include "estimator/model/data_parallel.h"

#include <algorithm>
#include <limits>

#include "estimator/layer/unit_costs.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

// Share of a window that can really hide communication (docs/cost_model/data_parallel.md
// "Overlap").
constexpr double kUsableWindow = 0.9;
// Bytes of an updated weight that comes back from the host, in fp32
// (docs/cost_model/data_parallel.md "Host").
constexpr double kReturnedBytes = 4;

// Returns the time that a device waits for the update of one parameter in host memory: its gradient
// goes there, its weight comes back, and the devices of a NUMA domain share the domain's rate.
Seconds HostTime(const NodePool& pool, const Workload& workload, const FrameworkProfile& profile) {
  const double bytes = BytesPerParameter(workload, profile).gradient + kReturnedBytes;
  const Host& host = pool.host;
  const int sharers = (pool.devices_per_node + host.numa_domain_count - 1) / host.numa_domain_count;
  const double rate = host.updated_parameters_per_second / host.numa_domain_count;
  return Seconds(bytes / pool.chip.host_link.rate + sharers / rate);
}

// The computation that communication runs beside.
struct Window {
  Seconds whole = Seconds(0);
  // In an interleaved schedule the messages of one of `chunks` chunks, the first or the last of the
  // step, have only their own share of a micro-batch.
  Seconds own = Seconds(0);
  double chunks = 1;
};

// The parts of communication that stay visible beside computation.
struct Hiding {
  double visible_share = 0;  // share that nothing hides
  double slowdown = 0;       // ChipSpec::overlap_slowdown
};

Seconds Exposed(Seconds total, const Window& window, const Hiding& hiding) {
  if (total.count() <= 0) return Seconds(0);
  const Seconds bare = std::max({hiding.visible_share * total, total - kUsableWindow * window.whole,
                                 total / window.chunks - kUsableWindow * window.own});
  return bare + hiding.slowdown * (total - bare);
}

// Returns the window of a micro-batch's `pass`. If chunks synchronise one by one, each waits for p
// micro-batches of the others.
Window WindowOf(Seconds pass, const PipelineShape& shape, const FrameworkProfile& profile) {
  const double v = shape.schedule == Schedule::kInterleaved1f1b && profile.syncs_chunk_by_chunk
                       ? shape.virtual_stages
                       : 1;
  return {.whole = (shape.stages * (v - 1) + 1) / v * pass, .own = pass / v, .chunks = v};
}

// Returns the smallest number of parameters that are sent together: under ZeRO-3 those of one
// layer, the unit that is gathered. Its experts go over their own ranks.
StageParameters LeastMessage(const Stage& stage) {
  if (stage.devices->states.zero_stage < 3) return {};
  return {.dense = LargestOf(stage, [](const KindCosts& kind) { return kind.parameters; }),
          .expert = LargestOf(stage, [](const KindCosts& kind) { return kind.expert_parameters; })};
}

// The parameters that go over one group, and their division into messages.
struct Load {
  double bytes_per_parameter = 0;
  double parameters = 0;
  double bucket = 0;  // parameters that are sent together
  double least = 0;   // the smallest number of these
};

class Tail {
 public:
  Tail(const Stage& stage, const DataGroups& groups, const StateBytes& bytes,
       const EstimatorProblem& problem)
      : stage_(stage),
        sharding_(stage.devices->states),
        groups_(groups),
        problem_(problem),
        bytes_(bytes),
        parameters_(stage.parameters),
        least_(LeastMessage(stage)) {}

  // Returns the time to reduce the gradients of the whole stage once.
  [[nodiscard]] Seconds ReduceGradients() const {
    const CollectiveKind kind =
        sharding_.zero_stage >= 1 ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
    const double bucket = Bucket(problem_.workload.overlap.gradient_reduce);
    const Load dense = {.bytes_per_parameter = bytes_.reduced_gradient,
                        .parameters = parameters_.dense,
                        .bucket = bucket,
                        .least = least_.dense};
    const Load expert = {.bytes_per_parameter = bytes_.reduced_gradient,
                         .parameters = parameters_.expert,
                         .bucket = bucket,
                         .least = least_.expert};
    // Each bucket's shard is reduced once more across the copies of the sharding group.
    const int shards = Ranks(groups_.dense);
    const Load shard = {.bytes_per_parameter = bytes_.reduced_gradient,
                        .parameters = dense.parameters / shards,
                        .bucket = bucket / shards,
                        .least = dense.least / shards};
    return Over(kind, dense, groups_.dense) + Over(kind, expert, groups_.expert) +
           Over(CollectiveKind::kAllReduce, shard, groups_.dense_replicas);
  }

  // Returns the time to gather the weights of the whole stage once.
  [[nodiscard]] Seconds GatherParameters() const { return Gather(parameters_); }

  // Returns the same for the weights that are sharded again after each pass.
  [[nodiscard]] Seconds GatherShardedParameters() const {
    const StageParameters whole = WholeParametersOf(stage_);
    return Gather({.dense = parameters_.dense - whole.dense,
                   .vocabulary = parameters_.vocabulary,
                   .expert = parameters_.expert - whole.expert});
  }

  // Returns true if any gradient is reduced before the end of the backward pass.
  [[nodiscard]] bool FillsBuckets() const {
    return !problem_.profile.buckets_have_owners ||
           parameters_.dense / Ranks(groups_.dense) >= Bucket(true);
  }

  [[nodiscard]] Seconds Optimizer() const {
    const FrameworkProfile& profile = problem_.profile;
    const ChipSpec& chip = stage_.devices->pool->chip;
    const bool sharded = sharding_.zero_stage >= 1;
    const double owned = parameters_.dense / (sharded ? sharding_.dense_group : 1) +
                         parameters_.expert / (sharded ? sharding_.expert_group : 1);
    // Norm and clipping read the reduced gradients; a sharded optimizer reads only its own part.
    const double bytes =
        owned * ((1 - sharding_.offload_ratio) * profile.optimizer_traffic_bytes_per_parameter +
                 profile.gradient_traffic_bytes_per_parameter);
    const Seconds on_device =
        RoundedBytes(bytes) / (chip.memory_bandwidth * chip.stream_efficiency);
    return on_device + owned * sharding_.offload_ratio *
                           HostTime(*stage_.devices->pool, problem_.workload, profile);
  }

 private:
  [[nodiscard]] Seconds Gather(const StageParameters& gathered) const {
    const double bucket = Bucket(problem_.workload.overlap.parameter_gather);
    // The vocabulary's weights stay in 16 bits.
    const double vocabulary = gathered.dense > 0 ? (bytes_.weight - bytes_.gathered_weight) *
                                                       gathered.vocabulary / gathered.dense
                                                 : 0;
    return Over(CollectiveKind::kAllGather,
                {.bytes_per_parameter = bytes_.gathered_weight + vocabulary,
                 .parameters = gathered.dense,
                 .bucket = bucket,
                 .least = least_.dense},
                groups_.dense) +
           Over(CollectiveKind::kAllGather,
                {.bytes_per_parameter = bytes_.gathered_weight,
                 .parameters = gathered.expert,
                 .bucket = bucket,
                 .least = least_.expert},
                groups_.expert);
  }

  // Returns the time of a load in buckets, each of which pays the latency of its collective.
  [[nodiscard]] Seconds Over(CollectiveKind kind, const Load& load, const GroupShape& shape) const {
    if (Ranks(shape) <= 1 || load.parameters <= 0) return Seconds(0);
    double buckets = std::max(1.0, load.parameters / std::max(load.bucket, load.least));
    // Owners send their weights one after another.
    const bool is_of_owners =
        problem_.profile.buckets_have_owners && kind == CollectiveKind::kAllGather;
    if (is_of_owners) buckets = std::max<double>(buckets, Ranks(shape));
    const double bytes = load.bytes_per_parameter * load.parameters;
    if (const auto& ring = stage_.devices->ring) {
      return buckets * RingTime(kind, RoundedBytes(bytes / buckets), ring->ranks, ring->hop);
    }
    return buckets * CollectiveTime(kind, RoundedBytes(bytes / buckets), shape,
                                    *stage_.devices->pool, problem_.cluster.topology);
  }

  // Returns the parameters of a bucket, whose size depends on the ranks that share the dense part.
  [[nodiscard]] double Bucket(bool overlaps) const {
    const FrameworkProfile& profile = problem_.profile;
    if (!overlaps && !profile.buckets_without_overlap) {
      return std::numeric_limits<double>::infinity();
    }
    return std::max(profile.bucket_parameters,
                    profile.bucket_parameters_per_rank * Ranks(groups_.dense));
  }

  const Stage& stage_;
  const StateSharding& sharding_;
  const DataGroups& groups_;
  const EstimatorProblem& problem_;
  const StateBytes& bytes_;
  const StageParameters& parameters_;
  StageParameters least_;  // the smallest message
};

// Returns true if states are exchanged between nodes.
bool LeavesNode(const DataGroups& groups) {
  return groups.dense.nodes > 1 || groups.dense_replicas.nodes > 1 || groups.expert.nodes > 1;
}

}  // namespace

DataGroups PlaceDataGroups(const StageDevices& d) {
  if (d.ring.has_value()) {
    const int ranks = d.ring->ranks;
    const GroupShape all =
        d.ring->leaves_node ? GroupShape{.nodes = ranks} : GroupShape{.in_node = ranks};
    return {.dense = all, .expert = all};
  }
  const int g = ScaleUpDeviceCount(*d.pool);
  const int all = d.data_parallel * d.directions * d.sharding.context_parallel;
  const int inside = d.states.zero_stage >= 1 ? d.states.dense_group : all;
  const int t = d.sharding.tensor_parallel;
  const int expert_stride = d.sharding.expert_parallel * d.sharding.expert_tensor_parallel;
  StageBlocks blocks = BlocksOf(d);
  // The copy of the other direction lies in the same pipeline, on average this far away.
  blocks.stride = std::max(1, blocks.stride / d.directions);
  return {.dense = PlaceInStage(inside, t, blocks, g),
          .dense_replicas = PlaceInStage(all / inside, t * inside, blocks, g),
          .expert = PlaceInStage(std::max(1, all * t / expert_stride), expert_stride, blocks, g)};
}

bool OffloadCostsTime(const EstimatorProblem& problem) {
  const double traffic = problem.profile.optimizer_traffic_bytes_per_parameter;
  return std::ranges::all_of(problem.cluster.pools, [&](const NodePool& pool) {
    const BytesPerSecond memory = pool.chip.memory_bandwidth * pool.chip.stream_efficiency;
    return HostTime(pool, problem.workload, problem.profile).count() >= traffic / memory.rate;
  });
}

StateSharding StateShardingOf(const ParallelPlan& plan, const StageDevices& d) {
  if (d.ring.has_value()) {
    return {.zero_stage = plan.zero_stage,
            .dense_group = d.ring->ranks,
            .expert_group = d.ring->ranks,
            .offload_ratio = plan.optimizer_offload_ratio};
  }
  const int all = d.data_parallel * d.directions * d.sharding.context_parallel;
  const int experts =
      std::max(1, all * d.sharding.tensor_parallel /
                      (d.sharding.expert_parallel * d.sharding.expert_tensor_parallel));
  const int group = plan.zero_group_size > 0 ? plan.zero_group_size : all;
  return {.zero_stage = plan.zero_stage,
          .dense_group = group,
          .expert_group = experts,
          .offload_ratio = plan.optimizer_offload_ratio};
}

TailModel::TailModel(const StageDevices& devices, const StateBytes& bytes,
                     const EstimatorProblem& problem)
    : devices_(devices), groups_(PlaceDataGroups(devices)), bytes_(bytes), problem_(problem) {}

StepTail TailModel::Of(const Stage& s, const StageTime& time, const PipelineShape& shape) const {
  const Tail tail(s, groups_, bytes_, problem_);
  const StateSharding& sharding = devices_.states;
  const FrameworkProfile& profile = problem_.profile;
  const Overlap& overlap = problem_.workload.overlap;
  const Hiding hiding = {.visible_share = profile.gradient_bucket_exposed_ratio,
                         .slowdown = devices_.pool->chip.overlap_slowdown};
  const int micro_batches = shape.micro_batches / devices_.directions;  // in each direction
  // Sharded states are exchanged in each micro-batch, all others once per step.
  const auto window = [&](Seconds pass, int sharded_from) {
    return sharding.zero_stage >= sharded_from ? Window{.whole = pass, .own = pass}
                                               : WindowOf(pass, shape, profile);
  };
  // A stage of a pipeline also waits for others, and its network is idle then, so its window stays
  // whole.
  const bool shares_network = shape.stages == 1 && LeavesNode(groups_);
  const auto idle = [&](Seconds pass, Seconds network) {
    return shares_network ? std::max(Seconds(0), pass - network) : pass;
  };
  const Window backward = window(idle(time.backward_window, time.backward_network), 2);
  const Window forward = window(idle(time.forward_window, time.forward_network), 3);
  const Seconds reduce = tail.ReduceGradients();
  const bool hides_reduction = overlap.gradient_reduce && tail.FillsBuckets();
  const Seconds exposed_reduce = hides_reduction ? Exposed(reduce, backward, hiding) : reduce;
  StepTail result;
  result.optimizer = tail.Optimizer();
  if (sharding.zero_stage == 0) {
    result.communication = exposed_reduce;
    return result;
  }
  const Seconds gather = tail.GatherParameters();
  const auto beside_forward = [&](Seconds messages) {
    return overlap.parameter_gather ? Exposed(messages, forward, hiding) : messages;
  };
  const Seconds exposed_gather = beside_forward(gather);
  switch (sharding.zero_stage) {
    case 1:
      result.communication = exposed_reduce + exposed_gather;
      break;
    case 2:  // gradients are scattered after each micro-batch, or they could not stay sharded
      result.communication = micro_batches * exposed_reduce + exposed_gather;
      break;
    default: {  // weights are gathered in forward and again in backward of each micro-batch
      // Weights that stay whole are gathered only in the first forward pass.
      const Seconds again = s.whole_layers > 0 ? tail.GatherShardedParameters() : gather;
      // The second gather and the reduction share the window of the backward pass.
      Seconds beside_backward(0);
      Seconds bare(0);
      (overlap.parameter_gather ? beside_backward : bare) += again;
      (hides_reduction ? beside_backward : bare) += reduce;
      const Seconds once =
          beside_forward(again) + Exposed(beside_backward, backward, hiding) + bare;
      result.communication = micro_batches * once + (exposed_gather - beside_forward(again));
      break;
    }
  }
  return result;
}

}  // namespace meshwright
