#include "tests/plugins/bad_answers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace meshwright {
namespace {

namespace wire = costmodel::v1;

constexpr int kPoisonTensorParallel = 4;
constexpr int kPoisonMicroBatch = 2;
constexpr double kEfficiency = 0.4;
constexpr char kParameters = 'p';  // parameters from FitCalibration consist of it

template <typename Value>
Value At(const google::protobuf::RepeatedField<Value>& column, int i, Value absent) {
  return i < column.size() ? column.Get(i) : absent;
}

bool IsShare(double ratio) { return ratio >= 0 && ratio <= 1; }

// Returns true for sizes below 1 or an impossible ratio.
bool IsBadRow(const wire::Candidates& c, int i) {
  const int least = std::min({At(c.tensor_parallel(), i, 1), At(c.pipeline_parallel(), i, 1),
                              At(c.data_parallel(), i, 1), At(c.context_parallel(), i, 1),
                              At(c.micro_batch_size(), i, 1)});
  return least < 1 || !IsShare(At(c.optimizer_offload_ratio(), i, 0.0));
}

bool IsListOf(const google::protobuf::RepeatedField<std::int32_t>& lengths, int size) {
  std::int64_t sum = 0;
  for (const int length : lengths) sum += length;
  return sum == size;
}

bool IsMalformed(const wire::Candidates& c) {
  if (c.count() < 0) return true;
  const int columns[] = {c.tensor_parallel_size(),  c.pipeline_parallel_size(),
                         c.data_parallel_size(),    c.context_parallel_size(),
                         c.micro_batch_size_size(), c.optimizer_offload_ratio_size()};
  const bool is_ragged =
      std::ranges::any_of(columns, [&](int length) { return length != 0 && length != c.count(); });
  return is_ragged || !IsListOf(c.recompute_layers_length(), c.recompute_layers_size());
}

bool HasSizes(const wire::OpenContextRequest& request) {
  if (request.cluster().pools_size() != 1) return false;
  const wire::Pool& pool = request.cluster().pools(0);
  return request.model().layer_count() > 0 && request.workload().global_batch_size() > 0 &&
         pool.chip().peaks_size() > 0 && pool.chip().memory_bandwidth_bytes_per_second() > 0;
}

bool NeedsMore(const wire::Model& model) {  // than a dense model
  return model.has_moe() || model.has_mla() || model.sliding_window() > 0 ||
         model.mtp_layer_count() > 0;
}

// Returns the factor of modes in which the model gets slower with better hardware: 1 and a
// hundredth for each 20 GB/s.
double SlownessOf(std::string_view mode, const wire::Pool& pool) {
  constexpr double kUnit = 2e12;
  double rate = 0;
  if (mode == "slow_memory") rate = pool.chip().memory_bandwidth_bytes_per_second();
  if (mode == "slow_node") rate = pool.intra_node().bandwidth_bytes_per_second();
  if (mode == "slow_network") rate = pool.inter_node().bandwidth_bytes_per_second();
  const double nodes = pool.node_count();
  if (mode == "scaling_slow") return nodes;
  if (mode == "scaling_fast") return 1 / nodes;
  return 1 + rate / kUnit;
}

double MemoryOf(const BadContext& context, const wire::Candidates& c, int i) {
  const double shards = At(c.tensor_parallel(), i, 1) * At(c.pipeline_parallel(), i, 1);
  const double ranks = At(c.data_parallel(), i, 1) * At(c.context_parallel(), i, 1);
  const int zero = At(c.zero_stage(), i, 0);
  const double host = At(c.optimizer_offload_ratio(), i, 0.0);
  const double states = 2 / (zero >= 3 ? ranks : 1) + 2 / (zero >= 2 ? ranks : 1) +
                        12 * (1 - host) / (zero >= 1 ? ranks : 1);
  const double inputs = context.layer_inputs * At(c.micro_batch_size(), i, 1) /
                        (shards * At(c.context_parallel(), i, 1));
  return context.parameters / shards * states + inputs;
}

double StatedMemory(std::string_view mode, const BadContext& context, const wire::Candidates& c,
                    int i) {
  const double shards = At(c.tensor_parallel(), i, 1) * At(c.pipeline_parallel(), i, 1);
  if (mode == "lie_memory") return 1000;
  if (mode == "memory_weights") return 2.01 * context.parameters / shards;
  if (mode == "memory_unsharded") return 16 * context.parameters / shards;
  return MemoryOf(context, c, i);
}

bool Fits(std::string_view mode, const BadContext& context, double bytes) {
  if (mode == "memory_endless") return true;
  // A pool states what a device reports, some percent below the chip's nominal memory.
  const double ratio = context.capacity / context.chip_capacity;
  if (mode == "memory_tight" && ratio < 0.9) return false;
  if (mode == "less_memory" && context.has_double_memory) return false;
  return bytes <= context.capacity;
}

double TimeOf(std::string_view mode, const BadContext& context, const wire::Candidates& c, int i) {
  const double good = context.peak_seconds / kEfficiency * context.slowness *
                      (1 + 0.01 * At(c.tensor_parallel(), i, 1));
  const bool is_lie = IsPoison(c, i);
  if (mode == "lie_nan" && is_lie) return std::numeric_limits<double>::quiet_NaN();
  if (mode == "lie_negative" && is_lie) return -1;
  if (mode == "lie_fast" && is_lie) return good / 1000;
  if (mode == "wrong_units") return good / 3600;  // hours
  if (mode == "milliseconds") return good * 1000;
  if (mode == "depends_on_order") return good * (1 + 1e-12 * i);
  return good;
}

bool IsKnown(const wire::Candidates& c, int i) {
  const int schedule = At(c.schedule(), i, static_cast<int>(wire::SCHEDULE_1F1B));
  return schedule >= wire::SCHEDULE_GPIPE && schedule <= wire::SCHEDULE_CHIMERA;
}

}  // namespace

bool IsPoison(const wire::Candidates& c, int i) {
  return At(c.tensor_parallel(), i, 1) == kPoisonTensorParallel &&
         At(c.micro_batch_size(), i, 1) == kPoisonMicroBatch;
}

std::string WhyRefused(std::string_view mode, const wire::OpenContextRequest& request) {
  const wire::Workload& workload = request.workload();
  if (mode == "refuse") return "no such chip";
  if (mode != "guess_precisions" && workload.precision() != "bf16") return "no such precision";
  const bool is_known_kernel = workload.attention_kernel() != "conformance-kernel";
  if (mode != "guess_kernels" && !is_known_kernel) return "no such kernel";
  const bool is_guessing = mode == "guess_operators" || mode == "guess_silently";
  if (!is_guessing && NeedsMore(request.model())) return "no such operator";
  if (mode != "takes_questions" && !HasSizes(request)) return "a size is missing";
  if (mode == "version_fields") {
    const bool has_more = !request.GetReflection()->GetUnknownFields(request).empty();
    if (has_more) return "a field that is not known";
  }
  const std::string& fitted = request.calibration();
  const bool is_garbage = fitted.find_first_not_of(kParameters) != std::string::npos;
  if (mode != "calibration_garbage" && is_garbage) return "no parameters of this model";
  if (mode == "guess_chips" || request.cluster().pools().empty()) return "";
  const std::string& chip = request.cluster().pools(0).chip().id();
  return chip.starts_with("conformance") ? "no such chip" : "";
}

BadContext ContextOf(std::string_view mode, const wire::OpenContextRequest& request) {
  BadContext context = {.is_calibrated = !request.calibration().empty()};
  if (!HasSizes(request)) return {.peak_seconds = 1, .capacity = 1};  // and guesses
  const wire::Pool& pool = request.cluster().pools(0);
  const double peak = pool.chip().peaks(0).flops_per_second();
  const double sequence = request.workload().sequence_length();
  const wire::Model& model = request.model();
  context.peak_seconds = 6 * static_cast<double>(model.active_parameter_count()) * sequence *
                         request.workload().global_batch_size() /
                         (peak * pool.node_count() * pool.devices_per_node());
  context.parameters = static_cast<double>(model.parameter_count());
  context.layer_inputs = 2 * sequence * model.hidden_size() * model.layer_count();
  context.capacity = static_cast<double>(pool.memory_capacity_bytes());
  context.chip_capacity = static_cast<double>(pool.chip().memory_capacity_bytes());
  static const double first_capacity = context.capacity;
  context.has_double_memory = context.capacity == 2 * first_capacity;
  context.slowness = SlownessOf(mode, pool);
  return context;
}

bool HasBadRow(const wire::Candidates& c) {
  for (int i = 0; i < c.count(); ++i) {
    if (IsBadRow(c, i)) return true;
  }
  return false;
}

std::string WhyRefusedBatch(std::string_view mode, const wire::Candidates& c) {
  if (mode != "takes_ragged" && IsMalformed(c)) return "columns of unequal length";
  if (mode == "batch_empty" && c.count() == 0) return "an empty batch";
  if (mode == "batch_largest" && c.count() == kStatedBatch) return "a batch too large";
  const bool is_oversized = mode.starts_with("batch") && c.count() > kStatedBatch;
  if (is_oversized && mode != "batch_oversized") return "a batch too large";
  if (mode == "bad_row_fails_all" && HasBadRow(c)) return "a bad candidate";
  return "";
}

BadAnswer Answer(std::string_view mode, const BadContext& context, const wire::Candidates& c,
                 int i) {
  if (mode != "takes_rows" && IsBadRow(c, i)) {
    return {.status = wire::CANDIDATE_STATUS_ERROR, .reason = "a size or a ratio"};
  }
  if (mode != "guess_schedules" && !IsKnown(c, i)) {
    return {.status = wire::CANDIDATE_STATUS_UNSUPPORTED, .reason = "no such schedule"};
  }
  if (mode == "no_reason" && IsPoison(c, i)) return {.status = wire::CANDIDATE_STATUS_UNSUPPORTED};
  if (!Fits(mode, context, MemoryOf(context, c, i))) {
    return {.status = wire::CANDIDATE_STATUS_INFEASIBLE_MEMORY, .reason = "too large"};
  }
  return {.seconds = TimeOf(mode, context, c, i),
          .peak_memory_bytes = StatedMemory(mode, context, c, i)};
}

}  // namespace meshwright
