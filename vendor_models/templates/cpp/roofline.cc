#include "roofline.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

namespace roofline {
namespace {

constexpr double kMatmulEfficiency = 0.6;
// A micro-batch with this many tokens reaches half of the rate.
constexpr double kSmallTokens = 256;
constexpr double kMemoryEfficiency = 0.8;
constexpr double kLinkEfficiency = 0.8;
constexpr double kRuntimeBytes = 1.0e9;

const char* const kPrecisions[] = {"bf16", "fp16", "fp8", "fp32"};
const char* const kAttentionKernels[] = {"unfused", "fused_softmax", "flash1", "flash2",
                                         "flash3",  "cudnn",         "vendor"};

bool IsOneOf(const std::string& word, const char* const* begin, const char* const* end) {
  return std::any_of(begin, end, [&](const char* known) { return word == known; });
}

double PeakOf(const wire::OpenContextRequest& request, const std::string& precision) {
  for (const wire::Peak& peak : request.cluster().pools(0).chip().peaks()) {
    if (peak.precision() == precision) return peak.flops_per_second();
  }
  return 0;
}

// Returns the peak that the test matmul_bf16 measures; 0 if the chip states none.
double MatmulPeakOf(const wire::OpenContextRequest& request) {
  const double bf16 = PeakOf(request, "bf16");
  return bf16 > 0 ? bf16 : PeakOf(request, "fp16");
}

// Returns an error if a measurement exceeds the data sheet's value; empty if it does not.
std::string WhyTooFast(const Test& test, double measured, double nominal) {
  if (measured <= nominal) return "";
  char text[160];
  std::snprintf(text, sizeof(text),
                "calibration: %s = %.6g %s; must be <= %.6g, the chip's nominal", test.name,
                measured, test.unit, nominal);
  return text;
}

// Returns the mistake in the fitted parameters; empty if there is none.
std::string WhyUncalibrated(const wire::OpenContextRequest& request) {
  Rates rates;
  if (!rates.Read(request.calibration())) return "calibration: no parameters of this model";
  const double peak = MatmulPeakOf(request);
  if (peak <= 0) {
    return std::string("calibration: the chip states no bf16 or fp16 peak to hold ") +
           kTests[0].name + " against";
  }
  const std::string wrong = WhyTooFast(kTests[0], rates.matmul, peak);
  const double memory = request.cluster().pools(0).chip().memory_bandwidth_bytes_per_second();
  return wrong.empty() ? WhyTooFast(kTests[1], rates.memory, memory) : wrong;
}

double Share(int n) { return (n - 1.0) / n; }

// Returns the warm-up and drain of a pipeline as a share of its work.
double BubbleRatio(const Candidate& c, double micro_batches) {
  const double plain = (c.pipeline - 1) / micro_batches;
  if (c.schedule == wire::SCHEDULE_INTERLEAVED_1F1B) return plain / c.chunks;
  if (c.schedule == wire::SCHEDULE_ZB_H1) return plain / 3;
  const bool is_simple = c.schedule == wire::SCHEDULE_GPIPE || c.schedule == wire::SCHEDULE_1F1B;
  return is_simple ? plain : plain / 2;
}

bool IsKnown(const Candidate& c) {
  return c.schedule >= wire::SCHEDULE_GPIPE && c.schedule <= wire::SCHEDULE_CHIMERA &&
         c.recompute >= wire::RECOMPUTE_GRANULARITY_NONE &&
         c.recompute <= wire::RECOMPUTE_GRANULARITY_FULL;
}

bool IsBadColumn(int length, int count) { return length != 0 && length != count; }

}  // namespace

std::string Rates::Fit(const wire::FitCalibrationRequest& request) {
  *this = {};
  for (const wire::CalibrationMeasurement& measured : request.measurements()) {
    // This form of the condition rejects NaN.
    const bool is_rate = measured.value() > 0 && std::isfinite(measured.value());
    if (!is_rate) return "measurements: " + measured.name() + " must be above 0";
    if (measured.name() == kTests[0].name) {
      matmul = measured.value();
    } else if (measured.name() == kTests[1].name) {
      memory = measured.value();
    } else {
      return "measurements: '" + measured.name() + "' is not a test of this model";
    }
  }
  return matmul > 0 && memory > 0 ? "" : "measurements: a test is missing";
}

std::string Rates::Text() const {
  char text[96];
  std::snprintf(text, sizeof(text), "roofline 1 %.17g %.17g", matmul, memory);
  return text;
}

bool Rates::Read(const std::string& text) {
  char end = 0;
  const int count = std::sscanf(text.c_str(), "roofline 1 %lf %lf%c", &matmul, &memory, &end);
  return count == 2 && matmul > 0 && memory > 0 && std::isfinite(matmul) && std::isfinite(memory);
}

std::string Roofline::WhyRefused(const wire::OpenContextRequest& request) {
  const wire::Workload& workload = request.workload();
  if (request.cluster().pools_size() != 1) return "cluster.pools: one pool is supported";
  if (!IsOneOf(workload.precision(), std::begin(kPrecisions), std::end(kPrecisions))) {
    return "workload.precision '" + workload.precision() + "' is not known";
  }
  if (!IsOneOf(workload.attention_kernel(), std::begin(kAttentionKernels),
               std::end(kAttentionKernels))) {
    return "workload.attention_kernel '" + workload.attention_kernel() + "' is not known";
  }
  if (PeakOf(request, workload.precision()) <= 0) {
    return "the chip states no peak of " + workload.precision();
  }
  const wire::Pool& pool = request.cluster().pools(0);
  const bool has_rates = pool.chip().memory_bandwidth_bytes_per_second() > 0 &&
                         pool.intra_node().bandwidth_bytes_per_second() > 0 &&
                         pool.node_count() > 0 && pool.devices_per_node() > 0;
  if (!has_rates) return "the pool lacks a bandwidth or a size";
  const wire::Model& model = request.model();
  const bool has_sizes = model.layer_count() > 0 && model.hidden_size() > 0 &&
                         model.parameter_count() > 0 && workload.sequence_length() > 0 &&
                         workload.global_batch_size() > 0;
  if (!has_sizes) return "the model or the workload lacks a size";
  // Operators that GetInfo does not list must be refused, not guessed.
  if (model.has_mla()) return "model.mla is not modelled";
  if (model.sliding_window() > 0) return "model.sliding_window is not modelled";
  if (model.mtp_layer_count() > 0) return "model.mtp_layer_count is not modelled";
  return request.calibration().empty() ? "" : WhyUncalibrated(request);
}

Roofline::Roofline(const wire::OpenContextRequest& request) {
  const wire::Model& model = request.model();
  const wire::Workload& workload = request.workload();
  const wire::Pool& pool = request.cluster().pools(0);
  layers_ = model.layer_count();
  hidden_ = model.hidden_size();
  sequence_ = workload.sequence_length();
  batch_ = workload.global_batch_size();
  devices_per_node_ = pool.devices_per_node();
  devices_ = pool.node_count() * devices_per_node_;
  if (model.has_moe()) {
    const int moe_layers = layers_ - model.moe().first_dense_layer_count();
    expert_parameters_ = 3.0 * moe_layers * model.moe().expert_count() * hidden_ *
                         model.moe().expert_ffn_hidden_size();
    expert_parameters_ = std::min(expert_parameters_, static_cast<double>(model.parameter_count()));
  }
  dense_parameters_ = static_cast<double>(model.parameter_count()) - expert_parameters_;
  const double tokens = batch_ * sequence_;
  const double width = static_cast<double>(model.attention_head_count()) * model.head_dim();
  // There are 6 FLOPs per parameter and token; causal attention has a forward and a backward pass.
  flops_ = 6.0 * tokens *
           (static_cast<double>(model.active_parameter_count()) + layers_ * width * sequence_);
  peak_ = PeakOf(request, workload.precision());
  matmul_efficiency_ = kMatmulEfficiency;
  memory_bandwidth_ = kMemoryEfficiency * pool.chip().memory_bandwidth_bytes_per_second();
  if (Rates rates; rates.Read(request.calibration())) {
    matmul_efficiency_ = rates.matmul / MatmulPeakOf(request);
    memory_bandwidth_ = rates.memory;
  }
  memory_capacity_ = static_cast<double>(pool.memory_capacity_bytes());
  inside_ = kLinkEfficiency * pool.intra_node().bandwidth_bytes_per_second();
  outside_ = kLinkEfficiency * pool.inter_node().bandwidth_bytes_per_second() / devices_per_node_;
  if (outside_ <= 0) outside_ = inside_;
  exposed_gradients_ = workload.overlaps_gradient_reduce() ? 0.3 : 1.0;
}

const char* Roofline::WhyWrong(const Candidate& c) const {
  const bool is_small = c.tensor < 1 || c.pipeline < 1 || c.chunks < 1 || c.data < 1 ||
                        c.context < 1 || c.expert < 1 || c.expert_tensor < 1 || c.micro_batch < 1;
  if (is_small) return "a size is below 1";
  if (c.zero_stage < 0 || c.zero_stage > 3) return "zero_stage is not 0 to 3";
  // This form of the condition rejects NaN.
  const bool is_share = c.optimizer_offload >= 0 && c.optimizer_offload <= 1;
  if (!is_share) return "optimizer_offload_ratio is not in 0 to 1";
  const double devices = static_cast<double>(c.tensor) * c.pipeline * c.data * c.context;
  if (devices != devices_) return "the sizes do not multiply to the devices of the cluster";
  return nullptr;
}

// Returns the bandwidth of a group, whose ranks are adjacent; `group` counts from the innermost.
double Roofline::Bandwidth(int group) const {
  return group <= devices_per_node_ ? inside_ : outside_;
}

double Roofline::ParametersOfDevice(const Candidate& c) const {
  return dense_parameters_ / (static_cast<double>(c.tensor) * c.pipeline) +
         expert_parameters_ / (static_cast<double>(c.pipeline) * c.expert * c.expert_tensor);
}

void Roofline::AddCommunication(const Candidate& c, double micro_batches, Estimate& e) const {
  const double tokens = c.micro_batch * sequence_ / c.context;
  const double message = 2 * tokens * hidden_;  // bytes, with 16 bits per element
  const double own_layers = static_cast<double>(layers_) / c.pipeline;
  const double per_layer = own_layers * micro_batches;
  e.lines[3] = per_layer * 8 * message * Share(c.tensor) / Bandwidth(c.tensor);
  e.lines[4] =
      per_layer * 4 * message * Share(c.context) / c.tensor / Bandwidth(c.tensor * c.context);
  e.lines[5] = expert_parameters_ > 0 ? per_layer * 4 * message * Share(c.expert) / c.tensor /
                                            Bandwidth(c.tensor * c.expert)
                                      : 0;
  e.lines[6] =
      c.pipeline > 1 ? 2 * c.chunks * micro_batches * message / c.tensor / Bandwidth(devices_) : 0;
  const int ranks = c.data * c.context;
  const double rounds = c.zero_stage == 3 ? 1.5 : 1;
  e.lines[8] = exposed_gradients_ * rounds * 2 * 2 * ParametersOfDevice(c) * Share(ranks) /
               Bandwidth(c.tensor * ranks);
}

double Roofline::Memory(const Candidate& c, double micro_batches) const {
  const double parameters = ParametersOfDevice(c);
  const double ranks = static_cast<double>(c.data) * c.context;
  const double weights = 2 * parameters / (c.zero_stage >= 3 ? ranks : 1);
  const double gradients = 4 * parameters / (c.zero_stage >= 2 ? ranks : 1);
  const double states =
      12 * parameters / (c.zero_stage >= 1 ? ranks : 1) * (1 - c.optimizer_offload);
  const double tokens = c.micro_batch * sequence_ / c.context;
  const double split = c.has_sequence_parallel ? c.tensor : 1;
  const double kept = tokens * hidden_ * (10 / split + 24.0 / c.tensor);
  const double input = 2 * tokens * hidden_ / split;
  double layer = kept;
  if (c.recompute == wire::RECOMPUTE_GRANULARITY_SELECTIVE) layer = 0.8 * kept;
  if (c.recompute == wire::RECOMPUTE_GRANULARITY_FULL) {
    layer = c.recomputed_share * input + (1 - c.recomputed_share) * kept;
  }
  const double in_flight = c.schedule == wire::SCHEDULE_GPIPE
                               ? micro_batches
                               : std::min<double>(c.pipeline, micro_batches);
  return weights + gradients + states + layer * layers_ / c.pipeline * in_flight + kRuntimeBytes;
}

double Roofline::MicroBatches(const Candidate& c) const {
  return std::ceil(batch_ / (static_cast<double>(c.data) * c.micro_batch));
}

double Roofline::MatmulSeconds(const Candidate& c) const {
  const double tokens = c.micro_batch * sequence_ / c.context / c.tensor;
  const double efficiency = matmul_efficiency_ * tokens / (tokens + kSmallTokens);
  return flops_ / (devices_ * peak_ * efficiency);
}

double Roofline::LeastSeconds(const Candidate& c) const {
  if (WhyWrong(c) != nullptr || !IsKnown(c)) return 0;
  return MatmulSeconds(c) * (1 + BubbleRatio(c, MicroBatches(c)));
}

Estimate Roofline::Of(const Candidate& c) const {
  Estimate e;
  if (const char* wrong = WhyWrong(c); wrong != nullptr) {
    e.status = wire::CANDIDATE_STATUS_ERROR;
    e.reason = wrong;
    return e;
  }
  if (!IsKnown(c)) {
    e.status = wire::CANDIDATE_STATUS_UNSUPPORTED;
    e.reason = "a schedule or recomputation that this model does not know";
    return e;
  }
  const double micro_batches = MicroBatches(c);
  e.peak_memory_bytes = Memory(c, micro_batches);
  if (e.peak_memory_bytes > memory_capacity_) {
    e.status = wire::CANDIDATE_STATUS_INFEASIBLE_MEMORY;
    e.reason = "more than the device has";
    return e;
  }
  e.lines[0] = MatmulSeconds(c);
  const double weights = 3 * 2 * ParametersOfDevice(c) * micro_batches;
  const double activations = 60 * c.micro_batch * sequence_ / c.context * hidden_ / c.tensor *
                             layers_ / c.pipeline * micro_batches;
  e.lines[1] = (weights + activations) / memory_bandwidth_;
  if (c.recompute == wire::RECOMPUTE_GRANULARITY_FULL) {
    e.lines[2] = (e.lines[0] + e.lines[1]) / 3 * c.recomputed_share;
  } else if (c.recompute == wire::RECOMPUTE_GRANULARITY_SELECTIVE) {
    e.lines[2] = 0.03 * e.lines[0];
  }
  AddCommunication(c, micro_batches, e);
  double work = 0;
  for (int i = 0; i < 6; ++i) work += e.lines[i];
  e.lines[7] = work * BubbleRatio(c, micro_batches);
  const double ranks = c.zero_stage >= 1 ? static_cast<double>(c.data) * c.context : 1;
  e.lines[9] = 30 * ParametersOfDevice(c) / ranks / memory_bandwidth_;
  for (const double line : e.lines) e.seconds += line;
  return e;
}

Columns::Columns(const wire::Candidates& candidates, int layers) : c_(candidates) {
  if (c_.recompute_layers_size() == 0) return;
  int next = 0;
  for (const int length : c_.recompute_layers_length()) {
    int sum = 0;
    for (int i = 0; i < length; ++i) sum += c_.recompute_layers(next++);
    recomputed_share_.push_back(length == 0 ? 1.0 : std::min(1.0, sum / double{1.0 * layers}));
  }
}

Candidate Columns::At(int i) const {
  Candidate out;
  if (c_.tensor_parallel_size() > 0) out.tensor = c_.tensor_parallel(i);
  if (c_.sequence_parallel_size() > 0) out.has_sequence_parallel = c_.sequence_parallel(i);
  if (c_.pipeline_parallel_size() > 0) out.pipeline = c_.pipeline_parallel(i);
  if (c_.virtual_pipeline_size() > 0) out.chunks = c_.virtual_pipeline(i);
  if (c_.data_parallel_size() > 0) out.data = c_.data_parallel(i);
  if (c_.context_parallel_size() > 0) out.context = c_.context_parallel(i);
  if (c_.expert_parallel_size() > 0) out.expert = c_.expert_parallel(i);
  if (c_.expert_tensor_parallel_size() > 0) out.expert_tensor = c_.expert_tensor_parallel(i);
  if (c_.micro_batch_size_size() > 0) out.micro_batch = c_.micro_batch_size(i);
  if (c_.zero_stage_size() > 0) out.zero_stage = c_.zero_stage(i);
  if (c_.schedule_size() > 0) out.schedule = c_.schedule(i);
  if (c_.recompute_size() > 0) out.recompute = c_.recompute(i);
  if (c_.optimizer_offload_ratio_size() > 0) out.optimizer_offload = c_.optimizer_offload_ratio(i);
  if (!recomputed_share_.empty()) {
    out.recomputed_share = recomputed_share_[static_cast<std::size_t>(i)];
  }
  return out;
}

std::string WhyMalformed(const wire::Candidates& c) {
  const int n = c.count();
  if (n < 0) return "candidates.count is below 0";
  const int lengths[] = {c.tensor_parallel_size(),
                         c.sequence_parallel_size(),
                         c.pipeline_parallel_size(),
                         c.virtual_pipeline_size(),
                         c.data_parallel_size(),
                         c.context_parallel_size(),
                         c.context_parallel_kind_size(),
                         c.expert_parallel_size(),
                         c.expert_tensor_parallel_size(),
                         c.micro_batch_size_size(),
                         c.zero_stage_size(),
                         c.zero_group_size_size(),
                         c.schedule_size(),
                         c.recompute_size(),
                         c.recompute_modules_size(),
                         c.rank_order_size(),
                         c.optimizer_offload_ratio_size(),
                         c.activation_offload_ratio_size(),
                         c.whole_weights_ratio_size(),
                         c.layers_per_stage_length_size(),
                         c.recompute_layers_length_size(),
                         c.selective_layers_length_size()};
  if (std::any_of(std::begin(lengths), std::end(lengths),
                  [&](int length) { return IsBadColumn(length, n); })) {
    return "a column has neither candidates.count entries nor none";
  }
  long sum = 0;
  for (const int length : c.recompute_layers_length()) {
    if (length < 0) return "recompute_layers_length is below 0";
    sum += length;
  }
  return sum == c.recompute_layers_size() ? "" : "recompute_layers does not match its lengths";
}

}  // namespace roofline
