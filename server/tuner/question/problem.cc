#include "server/tuner/question/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "estimator/frameworks/framework_library.h"
#include "estimator/frameworks/profile_facts.h"
#include "estimator/learning/interval.h"
#include "estimator/legality/chip_rules.h"
#include "estimator/legality/host_memory.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/pool_links.h"
#include "server/tuner/question/chip_doubts.h"
#include "server/tuner/question/framework_choice.h"
#include "server/tuner/question/moe_training.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace {

// Latency of one message inside a collective, by kind of link, for a pool that states no NIC
// latency (docs/cost_model/collectives.md: InfiniBand and RoCE take about 40 us per step, EFA 120
// us).
constexpr Seconds kLatency = Seconds(40e-6);
constexpr Seconds kEfaLatency = Seconds(120e-6);
constexpr BytesPerSecond kInterPool = {25e9};

// Nominal rate per device and direction, for a node that states a link other than the chip's own.
struct LinkRate {
  LinkKind kind;
  BytesPerSecond bandwidth;
};
constexpr LinkRate kLinkRates[] = {
    {LinkKind::kNvlink2, {150e9}}, {LinkKind::kNvlink3, {300e9}}, {LinkKind::kNvlink4, {450e9}},
    {LinkKind::kNvlink5, {900e9}}, {LinkKind::kPcie4, {32e9}},    {LinkKind::kPcie5, {64e9}},
};

// Takes stated values or defaults, and records the defaults.
class Defaults {
 public:
  Defaults(std::vector<AppliedDefault>& applied, std::string prefix, std::string source)
      : applied_(applied), prefix_(std::move(prefix)), source_(std::move(source)) {}

  template <typename T>
  T Choice(std::string_view field, const std::optional<T>& stated, T fallback) {
    if (stated.has_value()) return *stated;
    Note(field, std::string(Word(fallback)));
    return fallback;
  }

  template <typename T>
  T Number(std::string_view field, const std::optional<T>& stated, T fallback) {
    if (stated.has_value()) return *stated;
    Note(field, fmt::format("{}", fallback));
    return fallback;
  }

  void Note(std::string_view field, std::string value) {
    applied_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                        .value = std::move(value),
                        .source = source_});
  }

  void set_source(std::string source) { source_ = std::move(source); }

 private:
  std::vector<AppliedDefault>& applied_;
  std::string prefix_;
  std::string source_;
};

// Returns true if a default of the workload came from a fact that the workload itself states.
bool IsFromFact(std::string_view field, const WorkloadRequest& stated) {
  return std::ranges::any_of(stated.framework_facts, [&](const FrameworkFactRequest& fact) {
    std::string_view name = fact.name;
    if (name == "layernorm_dropout_ratio") name = "dropout_ratio";
    if (name == "bf16_gradient_dtype") name = "gradient_dtype";
    return field == fmt::format("workload.{}", name);
  });
}

// Returns the type of the gradients that training in this precision has. Gradients of 16 bits are
// of the parameters' own type.
GradientDtype UsualGradientDtype(const FrameworkProfile& profile, Precision precision) {
  if (precision == Precision::kFp32) return GradientDtype::kFp32;
  const bool is_fp16 = precision == Precision::kFp16;
  const GradientDtype usual = is_fp16
                                  ? profile.gradient_dtype
                                  : profile.bf16_gradient_dtype.value_or(profile.gradient_dtype);
  if (usual == GradientDtype::kFp32) return usual;
  return is_fp16 ? GradientDtype::kFp16 : GradientDtype::kBf16;
}

void ResolveMoeTraining(const WorkloadRequest& stated, Problem& problem, Defaults& defaults,
                        Workload& w) {
  const MoeTraining usual = UsualMoeTraining(problem.profile, problem.cluster.pools.front());
  const Overlap& overlap = problem.profile.overlap;
  w.moe = {.dispatcher = stated.moe.dispatcher.value_or(usual.dispatcher),
           .dispatch_dtype = stated.moe.dispatch_dtype.value_or(usual.dispatch_dtype),
           .capacity_factor = stated.moe.capacity_factor.value_or(usual.capacity_factor)};
  w.overlap.expert_parallel = stated.overlap.expert_parallel.value_or(overlap.expert_parallel);
  w.overlap.shared_expert = stated.overlap.shared_expert.value_or(overlap.shared_expert);
  if (!problem.model.moe.has_value()) return;  // not worth a word
  defaults.Choice("moe.dispatcher", stated.moe.dispatcher, usual.dispatcher);
  defaults.Choice("moe.dispatch_dtype", stated.moe.dispatch_dtype, usual.dispatch_dtype);
  defaults.Number("moe.capacity_factor", stated.moe.capacity_factor, usual.capacity_factor);
  defaults.Number("overlap.expert_parallel", stated.overlap.expert_parallel,
                  overlap.expert_parallel);
  defaults.Number("overlap.shared_expert", stated.overlap.shared_expert, overlap.shared_expert);
}

// A kernel that the workload states, also as a fact of the framework, is not replaced but refused
// where the chip does not run it.
void ResolveAttentionKernel(const WorkloadRequest& stated, const Problem& problem,
                            Defaults& defaults, Workload& w) {
  const FrameworkProfile& profile = problem.profile;
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  const AttentionKernel usual = profile.attention_kernel;
  if (const auto other = KernelOfModel(profile.name, usual, problem.model);
      other.has_value() && !IsFromFact("workload.attention_kernel", stated)) {
    defaults.set_source(other->reason);
    w.attention_kernel =
        defaults.Choice("attention_kernel", stated.attention_kernel, other->kernel);
    defaults.set_source(ProfileName(profile));
    return;
  }
  const auto substitute = SubstituteKernel(profile.name, usual, chip);
  if (!substitute.has_value() || IsFromFact("workload.attention_kernel", stated)) {
    w.attention_kernel = defaults.Choice("attention_kernel", stated.attention_kernel, usual);
    return;
  }
  defaults.set_source(
      fmt::format("chip {} does not run {} ({})", chip.id, Word(usual), ProfileName(profile)));
  w.attention_kernel = defaults.Choice("attention_kernel", stated.attention_kernel, *substitute);
  defaults.set_source(ProfileName(profile));
}

Workload ResolveWorkload(const WorkloadRequest& stated, const FrameworkEntry& framework,
                         Problem& problem) {
  const ChipSpec& chip = problem.cluster.pools.front().chip;
  const FrameworkProfile& profile = problem.profile;
  Defaults defaults(problem.applied_defaults, "workload", ProfileName(profile));
  Workload w;
  w.sequence_length = stated.sequence_length.value_or(1);
  w.global_batch_size = stated.global_batch_size.value_or(1);
  Precision precision = profile.precision;
  if (!NominalPeak(chip, precision).has_value() && !chip.peak.empty()) {
    precision = chip.peak.contains(Precision::kFp16) ? Precision::kFp16 : chip.peak.begin()->first;
  }
  w.precision = defaults.Choice("precision", stated.precision, precision);
  ResolveAttentionKernel(stated, problem, defaults, w);
  w.norm_kernel = defaults.Choice("norm_kernel", stated.norm_kernel, profile.norm_kernel);
  w.cross_entropy_kernel = defaults.Choice("cross_entropy_kernel", stated.cross_entropy_kernel,
                                           profile.cross_entropy_kernel);
  w.optimizer = defaults.Choice("optimizer", stated.optimizer, profile.optimizer);
  w.gradient_dtype = defaults.Choice("gradient_dtype", stated.gradient_dtype,
                                     UsualGradientDtype(profile, w.precision));
  w.fp8_recipe = stated.fp8_recipe.value_or(profile.fp8_recipe);
  if (w.precision == Precision::kFp8 && !stated.fp8_recipe.has_value()) {
    defaults.Note("fp8_recipe", std::string(Word(w.fp8_recipe)));
  }
  // Kernels for grouped GEMMs take bf16 and fp8 only (Megatron-LM's and PyTorch's).
  const bool has_kernel = w.precision == Precision::kBf16 || w.precision == Precision::kFp8;
  w.grouped_gemm = stated.grouped_gemm.value_or(profile.grouped_gemm && has_kernel);
  if (problem.model.moe.has_value() && !stated.grouped_gemm.has_value()) {
    defaults.Note("grouped_gemm", w.grouped_gemm ? "true" : "false");
  }
  const double dropout = problem.model.norm == NormKind::kLayernorm
                             ? profile.layernorm_dropout_ratio.value_or(profile.dropout_ratio)
                             : profile.dropout_ratio;
  w.dropout_ratio = defaults.Number("dropout_ratio", stated.dropout_ratio, dropout);
  const Overlap& usual = profile.overlap;
  w.overlap.gradient_reduce = defaults.Number(
      "overlap.gradient_reduce", stated.overlap.gradient_reduce, usual.gradient_reduce);
  w.overlap.parameter_gather = defaults.Number(
      "overlap.parameter_gather", stated.overlap.parameter_gather, usual.parameter_gather);
  w.overlap.tensor_parallel = defaults.Number(
      "overlap.tensor_parallel", stated.overlap.tensor_parallel, usual.tensor_parallel);
  w.overlap.pipeline_p2p =
      defaults.Number("overlap.pipeline_p2p", stated.overlap.pipeline_p2p, usual.pipeline_p2p);
  ResolveMoeTraining(stated, problem, defaults, w);
  w.framework_name = profile.name;
  w.framework_version = ResolveVersion(stated, framework);
  if (!stated.framework_name.has_value()) {
    defaults.set_source("no framework stated");
    defaults.Note("framework.name", profile.name);
  }
  if (stated.framework_version.value_or("").empty() && !profile.version.empty()) {
    defaults.set_source(VersionSource(profile));
    defaults.Note("framework.version", profile.version);
  }
  for (AppliedDefault& applied : problem.applied_defaults) {
    if (IsFromFact(applied.field, stated)) applied.source = "the workload's own fact";
  }
  return w;
}

ScaleUpLink ResolveIntraNode(const IntraNodeRequest& stated, const ChipSpec& chip,
                             Defaults& defaults) {
  ScaleUpLink link = chip.scale_up;
  link.kind = defaults.Choice("intra_node.kind", stated.kind, chip.scale_up.kind);
  BytesPerSecond usual = chip.scale_up.bandwidth;
  if (link.kind != chip.scale_up.kind) {
    defaults.set_source(
        fmt::format("rate of {} as chip {} has it", Word(chip.scale_up.kind), chip.id));
    for (const LinkRate& rate : kLinkRates) {
      if (rate.kind != link.kind) continue;
      usual = rate.bandwidth;
      defaults.set_source(fmt::format("nominal rate of {}", Word(link.kind)));
    }
    if (link.kind == LinkKind::kPcie4 || link.kind == LinkKind::kPcie5) {
      link.topology = NodeTopology::kPcieTree;
    }
  }
  link.bandwidth = stated.bandwidth.value_or(usual);
  if (!stated.bandwidth.has_value()) {
    defaults.Note("intra_node.bandwidth_bytes_per_second", fmt::format("{}", usual.rate));
  }
  return link;
}

InterNodeLink ResolveInterNode(const InterNodeRequest& stated, const ChipSpec& chip,
                               Defaults& defaults) {
  const UsualNode& node = chip.usual_node;
  InterNodeLink link;
  link.kind = defaults.Choice("inter_node.kind", stated.kind, node.nic_kind);
  link.nic_count = defaults.Number("inter_node.nic_count", stated.nic_count, node.nic_count);
  const double gigabits =
      defaults.Number("inter_node.nic_gigabits_per_second", stated.nic_gigabits_per_second,
                      node.nic_gigabits_per_second);
  link.nic_bandwidth = {gigabits * 1e9 / 8};
  link.latency = stated.latency.value_or(link.kind == LinkKind::kEfa ? kEfaLatency : kLatency);
  if (!stated.latency.has_value()) {
    defaults.Note("inter_node.latency_seconds", fmt::format("{}", link.latency.count()));
  }
  return link;
}

NodePool ResolvePool(const NodePoolRequest& stated, const ChipSpec& chip, std::size_t index,
                     Problem& problem) {
  const std::string source = chip.usual_node.is_published
                                 ? "usual node of " + chip.id
                                 : "default node (none published for " + chip.id + ")";
  Defaults defaults(problem.applied_defaults, fmt::format("cluster.pools[{}]", index), source);
  if (stated.power_limit_watts.has_value() && chip.power_limit_watts <= 0) {
    problem.warnings.push_back(
        fmt::format("cluster.pools[{}].power_limit_watts has no effect: the usual limit of {} is "
                    "not published",
                    index, chip.id));
  }
  NodePool pool;
  pool.name = stated.name;
  pool.chip = chip;
  pool.node_count = stated.node_count.value_or(1);
  pool.devices_per_node =
      defaults.Number("devices_per_node", stated.devices_per_node, chip.usual_node.device_count);
  // The link is a figure of the chip, even if its node is not known.
  if (!chip.usual_node.is_published) defaults.set_source("chip " + chip.id);
  pool.intra_node = ResolveIntraNode(stated.intra_node, chip, defaults);
  defaults.set_source(source);
  pool.inter_node = ResolveInterNode(stated.inter_node, chip, defaults);
  defaults.set_source("chip " + chip.id);
  if (stated.physical_devices_per_node != pool.devices_per_node) {
    pool.physical_devices_per_node = stated.physical_devices_per_node;
  }
  if (pool.physical_devices_per_node.has_value()) {
    problem.warnings.push_back(fmt::format(
        "cluster.pools[{}].physical_devices_per_node: step times of pipelines are lower bounds, up "
        "to 25 % too low if there are few micro-batches and many stages",
        index));
  }
  // Devices that share a physical device share its memory.
  const Bytes physical_memory = chip.reported_memory_capacity.count > 0
                                    ? chip.reported_memory_capacity
                                    : chip.memory_capacity;
  const Bytes own_memory = Scale(physical_memory, 1 / DevicesPerPhysical(pool));
  pool.memory_capacity = stated.memory_capacity.value_or(own_memory);
  if (!stated.memory_capacity.has_value()) {
    defaults.Note("memory_capacity_bytes", fmt::format("{}", own_memory.count));
  }
  defaults.set_source("slowest of three public reports");
  pool.host.updated_parameters_per_second = defaults.Number(
      "host.updated_parameters_per_second", stated.host.updated_parameters_per_second,
      pool.host.updated_parameters_per_second);
  defaults.set_source("servers with two sockets");
  pool.host.numa_domain_count = defaults.Number(
      "host.numa_domain_count", stated.host.numa_domain_count, pool.host.numa_domain_count);
  pool.host.memory = stated.host.memory;
  if (!stated.host.memory.has_value()) {
    defaults.set_source("assumed: as much as the node's devices have");
    defaults.Note("host.memory_bytes", fmt::format("{}", AssumedHostMemory(pool).count));
  }
  defaults.set_source("chip " + chip.id);
  pool.chip.host_link.rate = defaults.Number("host.link_bandwidth_bytes_per_second",
                                             stated.host.link_bandwidth.has_value()
                                                 ? std::optional(stated.host.link_bandwidth->rate)
                                                 : std::nullopt,
                                             chip.host_link.rate);
  pool.power_limit_watts = stated.power_limit_watts.value_or(chip.power_limit_watts);
  if (!stated.power_limit_watts.has_value() && chip.power_limit_watts > 0) {
    defaults.Note("power_limit_watts", fmt::format("{}", chip.power_limit_watts));
  }
  return pool;
}

void ResolveNetwork(const ClusterRequest& stated, Problem& problem) {
  Defaults defaults(problem.applied_defaults, "cluster", "default network");
  Topology& topology = problem.cluster.topology;
  const TopologyRequest& t = stated.topology;
  topology.kind = defaults.Choice("topology.kind", t.kind, topology.kind);
  if (t.kind.has_value() && *t.kind != ClusterTopology::kRailOptimized) {
    problem.warnings.push_back(
        fmt::format("cluster.topology.kind = {} is estimated as rail_optimized", Word(*t.kind)));
  }
  topology.nodes_per_segment = defaults.Number("topology.nodes_per_segment", t.nodes_per_segment,
                                               topology.nodes_per_segment);
  topology.oversubscription_ratio = defaults.Number(
      "topology.oversubscription_ratio", t.oversubscription_ratio, topology.oversubscription_ratio);
  InterPoolLink& link = problem.cluster.inter_pool;
  link.bandwidth_per_node = stated.inter_pool.bandwidth_per_node.value_or(kInterPool);
  link.latency = stated.inter_pool.latency.value_or(link.latency);
  if (problem.cluster.pools.size() < 2) return;
  if (!stated.inter_pool.bandwidth_per_node.has_value()) {
    defaults.Note("inter_pool.bandwidth_bytes_per_second_per_node",
                  fmt::format("{}", kInterPool.rate));
  }
  if (!stated.inter_pool.latency.has_value()) {
    defaults.Note("inter_pool.latency_seconds", fmt::format("{}", link.latency.count()));
  }
  problem.cluster.pool_links = ResolvePoolLinks(stated, problem.cluster, problem.applied_defaults);
}

// The precision that the user requests, and the field that states it.
struct StatedPrecision {
  Precision precision = Precision::kBf16;
  std::string field = {};
};

std::optional<StatedPrecision> PrecisionOf(const WorkloadRequest& workload) {
  if (workload.precision) {
    return StatedPrecision{.precision = *workload.precision, .field = "workload.precision"};
  }
  for (std::size_t i = 0; i < workload.framework_facts.size(); ++i) {
    const FrameworkFactRequest& fact = workload.framework_facts[i];
    const auto precision = ParseChoice<Precision>(fact.value);
    if (fact.name != "precision" || !precision.has_value()) continue;
    return StatedPrecision{.precision = *precision,
                           .field = fmt::format("workload.framework.facts[{}]", i)};
  }
  return std::nullopt;
}

void CheckChip(const NodePoolRequest& pool, std::string_view path, const Question& question,
               const Knowledge& knowledge, std::vector<FieldViolation>& violations) {
  if (pool.chip.empty()) return;  // reported by Validate
  const auto entry = knowledge.chips.Find(pool.chip);
  if (!entry.ok()) {
    violations.push_back(
        {.field = fmt::format("{}.chip", path), .description = ChipMistake(entry.status())});
    return;
  }
  const std::optional<StatedPrecision> stated = PrecisionOf(question.workload);
  if (!stated.has_value() || NominalPeak((*entry)->spec, stated->precision).has_value()) return;
  std::string known;
  for (const auto& [word, peak] : (*entry)->spec.peak) {
    known += (known.empty() ? "" : ", ") + std::string(Word(word));
  }
  violations.push_back(
      {.field = stated->field,
       .description = fmt::format("\"{}\"; {} has a known peak for {} only",
                                  Word(stated->precision), (*entry)->spec.id, known)});
}

}  // namespace

std::string ChipMistake(const absl::Status& unknown) {
  constexpr std::string_view kField = "chip = ";
  std::string description(unknown.message());
  if (description.starts_with(kField)) description.erase(0, kField.size());
  return description;
}

std::vector<FieldViolation> CheckQuestion(const Question& question, const Knowledge& knowledge) {
  std::vector<FieldViolation> violations = Validate(question.model, "model");
  const auto append = [&](const std::vector<FieldViolation>& more) {
    violations.insert(violations.end(), more.begin(), more.end());
  };
  append(Validate(question.workload, "workload"));
  append(Validate(question.cluster, "cluster"));
  if (const FrameworkEntry* framework =
          FindFramework(question.workload, question.model, knowledge).entry) {
    FrameworkProfile profile = framework->profile;
    append(ApplyFacts(question.workload, profile));
  } else {
    violations.push_back(
        {.field = "workload.framework.name",
         .description = UnknownFramework(*question.workload.framework_name, knowledge.frameworks)});
  }
  for (std::size_t i = 0; i < question.cluster.pools.size(); ++i) {
    CheckChip(question.cluster.pools[i], fmt::format("cluster.pools[{}]", i), question, knowledge,
              violations);
  }
  return violations;
}

absl::StatusOr<Problem> ResolveProblem(const Question& question, const Knowledge& knowledge) {
  const std::vector<FieldViolation> violations = CheckQuestion(question, knowledge);
  if (!violations.empty()) return InvalidFields(violations);
  Problem problem;
  problem.model = question.model;
  const FoundFramework found = FindFramework(question.workload, question.model, knowledge);
  problem.profile = found.entry->profile;
  problem.warnings = found.warnings;
  problem.framework_facts = question.workload.framework_facts;
  ApplyFacts(question.workload, problem.profile);  // CheckQuestion found nothing wrong with them
  if (!question.workload.framework_facts.empty()) {
    problem.warnings.push_back(FactsNote(question.workload, problem.profile));
  }
  problem.space = {
      .context_parallel_kinds = problem.profile.context_parallel_kinds,
      .schedules = problem.profile.schedules,
      .rank_orders = problem.profile.rank_orders,
      .sizes_end_stages = problem.profile.sizes_end_stages,
      .shards_in_groups = problem.profile.shards_in_groups,
      .activation_offload_needs_one_stage = problem.profile.activation_offload_needs_one_stage,
      .recomputes_by_stage = problem.profile.recomputes_by_stage,
      .mixes_recompute = problem.profile.mixes_recompute};
  const std::vector<int> percents = {0, 25, 50, 75, 100};
  if (problem.profile.offloads_optimizer) {
    const bool is_stated = std::ranges::any_of(
        question.workload.framework_facts,
        [](const FrameworkFactRequest& fact) { return fact.name == "offloads_optimizer"; });
    (is_stated ? problem.space.offload_percents : problem.closed_offload_percents) = percents;
  }
  if (problem.profile.offloads_activations) problem.space.activation_offload_percents = percents;
  problem.cluster.name = question.cluster.name;
  for (std::size_t i = 0; i < question.cluster.pools.size(); ++i) {
    const NodePoolRequest& stated = question.cluster.pools[i];
    ASSIGN_OR_RETURN(const ChipEntry* entry, knowledge.chips.Find(stated.chip));
    problem.cluster.pools.push_back(ResolvePool(stated, entry->spec, i, problem));
  }
  ResolveNetwork(question.cluster, problem);
  problem.workload = ResolveWorkload(question.workload, *found.entry, problem);
  problem.legality = LegalityRulesOf(problem.profile.name, problem.workload.framework_version);
  AddChipDoubts(problem.cluster, problem.workload, problem.warnings);
  if (!WasChecked(problem.profile, problem.cluster)) {
    problem.warnings.push_back(Extrapolation(problem.profile));
  }
  return problem;
}

bool OpenOffload(Problem& problem) {
  if (problem.closed_offload_percents.empty()) return false;
  problem.space.offload_percents = std::exchange(problem.closed_offload_percents, {});
  return true;
}

SearchSpace SpaceOf(const Problem& problem) {
  SpaceOptions options = problem.space;
  options.fabric_devices = ScaleUpDeviceCount(problem.cluster.pools.front());
  return SearchSpace(problem.model, DeviceCount(problem.cluster),
                     problem.workload.global_batch_size, std::move(options));
}

EstimatorProblem ToEstimatorProblem(const Problem& problem) {
  return {.model = problem.model,
          .workload = problem.workload,
          .profile = problem.profile,
          .cluster = problem.cluster,
          .legality = problem.legality};
}

}  // namespace meshwright
