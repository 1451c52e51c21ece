#include "server/plugins/wire/question_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "search_space/base/clean_text.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/workload.h"
#include "server/plugins/protocol/columns.h"

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

// Modules that selective recomputation may name; each is a bit of a batch's column.
constexpr std::string_view kModules[] = {"core_attn", "layernorm",   "mlp",           "moe",
                                         "moe_act",   "mla_up_proj", "shared_experts"};

// Returns the value of a field as its column has it. The words of the contract are those of the
// vocabulary, in its order, from 1 (tests/plan_fields).
template <typename Value>
constexpr auto CodeOf(Value value) {
  if constexpr (std::is_enum_v<Value>) {
    return static_cast<int>(value) + 1;
  } else {
    return value;
  }
}

void FillModel(const ModelSpec& model, wire::Model& out) {
  out.set_name(model.name);
  out.set_layer_count(model.layer_count);
  out.set_hidden_size(model.hidden_size);
  out.set_ffn_hidden_size(model.ffn_hidden_size);
  out.set_attention_head_count(model.attention_head_count);
  out.set_kv_head_count(model.kv_head_count);
  out.set_head_dim(model.head_dim);
  out.set_vocab_size(model.vocab_size);
  out.set_mlp(std::string(Word(model.mlp)));
  out.set_norm(std::string(Word(model.norm)));
  out.set_has_tied_embeddings(model.tied_embeddings);
  out.set_sliding_window(model.sliding_window);
  out.set_mtp_layer_count(model.mtp_layer_count);
  out.set_parameter_count(ParameterCount(model, /*active_only=*/false));
  out.set_active_parameter_count(ParameterCount(model, /*active_only=*/true));
  if (model.moe.has_value()) {
    wire::Moe& moe = *out.mutable_moe();
    moe.set_expert_count(model.moe->expert_count);
    moe.set_experts_per_token(model.moe->experts_per_token);
    moe.set_expert_ffn_hidden_size(model.moe->expert_ffn_hidden_size);
    moe.set_shared_expert_ffn_hidden_size(model.moe->shared_expert_ffn_hidden_size);
    moe.set_first_dense_layer_count(model.moe->first_dense_layer_count);
    moe.set_imbalance_ratio(model.moe->imbalance_ratio);
  }
  if (model.mla.has_value()) {
    wire::Mla& mla = *out.mutable_mla();
    mla.set_q_lora_rank(model.mla->q_lora_rank);
    mla.set_kv_lora_rank(model.mla->kv_lora_rank);
    mla.set_qk_nope_head_dim(model.mla->qk_nope_head_dim);
    mla.set_qk_rope_head_dim(model.mla->qk_rope_head_dim);
    mla.set_v_head_dim(model.mla->v_head_dim);
  }
}

void FillWorkload(const Workload& workload, wire::Workload& out) {
  out.set_sequence_length(workload.sequence_length);
  out.set_global_batch_size(workload.global_batch_size);
  out.set_precision(std::string(Word(workload.precision)));
  out.set_attention_kernel(std::string(Word(workload.attention_kernel)));
  out.set_norm_kernel(std::string(Word(workload.norm_kernel)));
  out.set_cross_entropy_kernel(std::string(Word(workload.cross_entropy_kernel)));
  out.set_optimizer(std::string(Word(workload.optimizer)));
  out.set_gradient_dtype(std::string(Word(workload.gradient_dtype)));
  out.set_fp8_recipe(std::string(Word(workload.fp8_recipe)));
  out.set_has_grouped_gemm(workload.grouped_gemm);
  out.set_dropout_ratio(workload.dropout_ratio);
  out.set_overlaps_gradient_reduce(workload.overlap.gradient_reduce);
  out.set_overlaps_parameter_gather(workload.overlap.parameter_gather);
  out.set_overlaps_tensor_parallel(workload.overlap.tensor_parallel);
  out.set_overlaps_pipeline_p2p(workload.overlap.pipeline_p2p);
  out.set_framework_name(workload.framework_name);
  out.set_framework_version(workload.framework_version);
  for (const std::string_view module : kModules) {
    out.add_recompute_module_names(std::string(module));
  }
}

void FillPool(const NodePool& pool, wire::Pool& out) {
  out.set_name(pool.name);
  out.set_node_count(pool.node_count);
  out.set_devices_per_node(pool.devices_per_node);
  out.set_memory_capacity_bytes(pool.memory_capacity.count);
  out.set_power_limit_watts(pool.power_limit_watts);
  wire::Link& inside = *out.mutable_intra_node();
  inside.set_kind(std::string(Word(pool.intra_node.kind)));
  inside.set_bandwidth_bytes_per_second(pool.intra_node.bandwidth.rate);
  inside.set_device_count(ScaleUpDeviceCount(pool));
  wire::Link& outside = *out.mutable_inter_node();
  outside.set_kind(std::string(Word(pool.inter_node.kind)));
  outside.set_bandwidth_bytes_per_second(pool.inter_node.nic_bandwidth.rate *
                                         pool.inter_node.nic_count);
  outside.set_latency_seconds(pool.inter_node.latency.count());
  outside.set_device_count(pool.inter_node.nic_count);
  wire::Chip& chip = *out.mutable_chip();
  chip.set_id(pool.chip.id);
  chip.set_vendor(pool.chip.vendor);
  chip.set_name(pool.chip.name);
  chip.set_memory_capacity_bytes(pool.chip.memory_capacity.count);
  chip.set_memory_bandwidth_bytes_per_second(pool.chip.memory_bandwidth.rate);
  chip.set_core_count(pool.chip.core_count);
  chip.set_cache_bytes(pool.chip.cache.count);
  for (const auto& [precision, peak] : pool.chip.peak) {
    wire::Peak& out_peak = *chip.add_peaks();
    out_peak.set_precision(std::string(Word(precision)));
    out_peak.set_flops_per_second(peak.rate);
  }
}

// Adds a column unless every plan has its default.
template <typename Column, typename ValueOf, typename Value>
void FillColumn(std::span<const ParallelPlan> plans, Column& column, const ValueOf& value_of,
                Value absent) {
  const auto is_default = [&](const ParallelPlan& plan) { return value_of(plan) == absent; };
  if (std::ranges::all_of(plans, is_default)) return;
  column.Reserve(static_cast<int>(plans.size()));
  for (const ParallelPlan& plan : plans) column.AddAlreadyReserved(value_of(plan));
}

using Numbers = google::protobuf::RepeatedField<std::int32_t>;

template <typename ListOf>
void FillLists(std::span<const ParallelPlan> plans, Numbers& lengths, Numbers& values,
               const ListOf& list_of) {
  const auto is_empty = [&](const ParallelPlan& plan) { return list_of(plan).empty(); };
  if (std::ranges::all_of(plans, is_empty)) return;
  for (const ParallelPlan& plan : plans) {
    const auto& list = list_of(plan);
    lengths.Add(static_cast<int>(list.size()));
    values.Add(list.begin(), list.end());
  }
}

std::uint32_t ModuleBits(const ParallelPlan& plan, const Problem& problem) {
  const bool has_selective = plan.recompute.granularity == RecomputeGranularity::kSelective ||
                             !plan.recompute.selective_layer_counts.empty();
  if (!has_selective) return 0;
  const std::vector<std::string>& modules =
      plan.recompute.modules.empty() ? problem.profile.selective_modules : plan.recompute.modules;
  std::uint32_t bits = 0;
  for (const std::string& module : modules) {
    const auto* const found = std::ranges::find(kModules, module);
    if (found != std::end(kModules)) bits |= 1U << (found - std::begin(kModules));
  }
  return bits;
}

// Fills the column of a plan field, or the two columns of a list.
template <std::size_t kIndex>
void FillField(std::span<const ParallelPlan> plans, wire::Candidates& c) {
  constexpr auto kField = std::get<kIndex>(kPlanFields);
  using Value = typename decltype(kField)::value_type;
  constexpr bool kIsRecompute = std::is_same_v<Value, RecomputePlan>;  // FillRecompute
  if constexpr (!kField.facts.is_column || kIsRecompute) {
    return;
  } else if constexpr (std::is_same_v<Value, std::vector<int>>) {
    constexpr CandidateLists kLists = *std::ranges::find(
        kListColumns, kField.facts.name, [](const auto& lists) { return lists.values.name; });
    constexpr auto kLengths = kLists.lengths.get_mutable;
    constexpr auto kValues = kLists.values.get_mutable;
    FillLists(
        plans, *(c.*kLengths)(), *(c.*kValues)(), [&](const ParallelPlan& plan) -> const auto& {
          return plan.*kField.member;
        });
  } else {
    constexpr std::size_t kColumn = ColumnIndex(kField.facts.name);
    static_assert(kColumn < std::tuple_size_v<decltype(kColumns)>,
                  "this plan field has no row in server/plugins/protocol/columns.h");
    constexpr auto kFill = std::get<kColumn>(kColumns).get_mutable;
    FillColumn(
        plans, *(c.*kFill)(), [&](const ParallelPlan& plan) { return CodeOf(plan.*kField.member); },
        CodeOf(kDefaultPlan.*kField.member));
  }
}

template <std::size_t... kIndex>
void FillFields(std::span<const ParallelPlan> plans, wire::Candidates& c,
                std::index_sequence<kIndex...>) {
  (FillField<kIndex>(plans, c), ...);
}

void FillRecompute(std::span<const ParallelPlan> plans, const Problem& problem,
                   wire::Candidates& c) {
  using Plan = ParallelPlan;
  FillColumn(
      plans, *c.mutable_recompute(), [](const Plan& p) { return CodeOf(p.recompute.granularity); },
      CodeOf(RecomputeGranularity::kNone));
  FillColumn(
      plans, *c.mutable_recompute_modules(), [&](const Plan& p) { return ModuleBits(p, problem); },
      0U);
  FillLists(
      plans, *c.mutable_recompute_layers_length(), *c.mutable_recompute_layers(),
      [](const Plan& p) -> const auto& { return p.recompute.layer_counts; });
  FillLists(
      plans, *c.mutable_selective_layers_length(), *c.mutable_selective_layers(),
      [](const Plan& p) -> const auto& { return p.recompute.selective_layer_counts; });
}

absl::Status BadShape(std::string_view column, int length, std::size_t count) {
  return absl::InternalError(
      fmt::format("the answer's column {} has {} entries; must have {}", column, length, count));
}

// The most lines of a breakdown, whose names are kept for each plan.
constexpr int kMaxBreakdownLines = 64;
constexpr std::size_t kLongestLineName = 64;

bool IsWhole(int length, std::size_t count) { return static_cast<std::size_t>(length) == count; }

// Checks the columns that may be missing.
absl::Status CheckOptional(const wire::EstimateBatchResponse& r, std::size_t count,
                           bool with_breakdown) {
  const std::pair<std::string_view, int> columns[] = {
      {"status", r.status_size()},
      {"step_time_low_seconds", r.step_time_low_seconds_size()},
      {"step_time_high_seconds", r.step_time_high_seconds_size()},
      {"peak_memory_bytes", r.peak_memory_bytes_size()}};
  for (const auto& [name, length] : columns) {
    if (length != 0 && !IsWhole(length, count)) return BadShape(name, length, count);
  }
  if (!with_breakdown) return absl::OkStatus();
  if (r.breakdown_names_size() > kMaxBreakdownLines) {
    return absl::InternalError(
        fmt::format("the answer's breakdown has {} lines; must be at most {}",
                    r.breakdown_names_size(), kMaxBreakdownLines));
  }
  for (const std::string& name : r.breakdown_names()) {
    if (name.size() <= kLongestLineName) continue;
    return absl::InternalError(
        fmt::format("a name of the answer's breakdown has {} bytes; must have at most {}",
                    name.size(), kLongestLineName));
  }
  const auto lines = static_cast<std::size_t>(r.breakdown_names_size());
  if (r.breakdown_seconds_size() != 0 && !IsWhole(r.breakdown_seconds_size(), count * lines)) {
    return BadShape("breakdown_seconds", r.breakdown_seconds_size(), count * lines);
  }
  return absl::OkStatus();
}

PlanVerdict VerdictOf(int status) {
  switch (status) {
    case wire::CANDIDATE_STATUS_OK:
      return PlanVerdict::kOk;
    case wire::CANDIDATE_STATUS_INFEASIBLE_MEMORY:
      return PlanVerdict::kInfeasibleMemory;
    case wire::CANDIDATE_STATUS_UNSUPPORTED:
      return PlanVerdict::kUnsupported;
    default:  // a foreign program may send any number
      return PlanVerdict::kError;
  }
}

// Reads one plan's figures from complete columns.
PlanFigures FiguresAt(const wire::EstimateBatchResponse& r, int i, bool with_breakdown) {
  PlanFigures figures;
  figures.verdict = r.status_size() == 0 ? PlanVerdict::kOk : VerdictOf(r.status(i));
  if (figures.verdict != PlanVerdict::kOk) return figures;
  figures.step_time = Seconds(r.step_time_seconds(i));
  // 0 means "not known" here, because a library cannot leave out a column.
  const bool has_interval = r.step_time_low_seconds_size() > 0 &&
                            r.step_time_high_seconds_size() > 0 &&
                            r.step_time_low_seconds(i) != 0 && r.step_time_high_seconds(i) != 0;
  if (has_interval) {
    figures.step_time_low = Seconds(r.step_time_low_seconds(i));
    figures.step_time_high = Seconds(r.step_time_high_seconds(i));
  }
  if (r.peak_memory_bytes_size() > 0 && r.peak_memory_bytes(i) != 0) {
    figures.peak_memory = Bytes{r.peak_memory_bytes(i)};
  }
  if (!with_breakdown || r.breakdown_seconds_size() == 0) return figures;
  for (int line = 0; line < r.breakdown_names_size(); ++line) {
    figures.breakdown.emplace_back(
        CleanText(r.breakdown_names(line), {.longest_bytes = kLongestLineName}),
        Seconds(r.breakdown_seconds(i * r.breakdown_names_size() + line)));
  }
  return figures;
}

}  // namespace

wire::OpenContextRequest ToContext(const Problem& problem,
                                   const CalibrationParameters& calibration) {
  wire::OpenContextRequest context;
  context.set_calibration(calibration.bytes);
  context.set_calibration_version(calibration.version);
  FillModel(problem.model, *context.mutable_model());
  FillWorkload(problem.workload, *context.mutable_workload());
  wire::Cluster& cluster = *context.mutable_cluster();
  cluster.set_name(problem.cluster.name);
  cluster.set_topology(std::string(Word(problem.cluster.topology.kind)));
  cluster.set_nodes_per_segment(problem.cluster.topology.nodes_per_segment);
  cluster.set_oversubscription_ratio(problem.cluster.topology.oversubscription_ratio);
  for (const NodePool& pool : problem.cluster.pools) FillPool(pool, *cluster.add_pools());
  return context;
}

std::vector<std::string_view> OperatorsOf(const ModelSpec& model) {
  std::vector<std::string_view> operators;
  if (model.moe.has_value()) operators.emplace_back("moe");
  if (model.mla.has_value()) operators.emplace_back("mla");
  if (model.sliding_window > 0) operators.emplace_back("sliding_window");
  if (model.mtp_layer_count > 0) operators.emplace_back("mtp");
  // The contract has no fields for these.
  if (!model.layers.empty()) operators.emplace_back("mixed_layers");
  if (model.mla.has_value() && model.mla->index_head_count > 0) {
    operators.emplace_back("sparse_attention");
  }
  return operators;
}

wire::Candidates ToCandidates(std::span<const ParallelPlan> plans, const Problem& problem) {
  wire::Candidates c;
  c.set_count(static_cast<int>(plans.size()));
  FillFields(plans, c, std::make_index_sequence<std::tuple_size_v<decltype(kPlanFields)>>());
  FillRecompute(plans, problem, c);
  return c;
}

absl::StatusOr<std::vector<PlanFigures>> FromWire(const wire::EstimateBatchResponse& r,
                                                  std::size_t count, bool with_breakdown) {
  if (!IsWhole(r.step_time_seconds_size(), count)) {
    return BadShape("step_time_seconds", r.step_time_seconds_size(), count);
  }
  if (absl::Status shape = CheckOptional(r, count, with_breakdown); !shape.ok()) {
    return shape;
  }
  std::vector<PlanFigures> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(FiguresAt(r, static_cast<int>(i), with_breakdown));
  }
  constexpr std::size_t kLongestReason = 400;
  for (const wire::CandidateReason& reason : r.reasons()) {
    const bool is_known = reason.index() >= 0 && static_cast<std::size_t>(reason.index()) < count;
    if (is_known) {
      all[static_cast<std::size_t>(reason.index())].reason =
          CleanText(reason.text(), {.longest_bytes = kLongestReason});
    }
  }
  return all;
}

}  // namespace meshwright
