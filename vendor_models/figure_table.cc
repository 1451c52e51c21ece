#include "vendor_models/figure_table.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr double Raw(double value) { return value; }
constexpr double Raw(int value) { return value; }
constexpr double Raw(Bytes value) { return static_cast<double>(value.count); }
constexpr double Raw(BytesPerSecond value) { return value.rate; }
constexpr double Raw(FlopsPerSecond value) { return value.rate; }
constexpr double Raw(Seconds value) { return value.count(); }
constexpr std::optional<double> Raw(std::optional<double> value) { return value; }
constexpr std::optional<double> Raw(std::optional<int> value) { return value; }

void Assign(double& to, double raw) { to = raw; }
void Assign(std::optional<double>& to, double raw) { to = raw; }
void Assign(std::optional<int>& to, double raw) { to = static_cast<int>(raw); }
void Assign(int& to, double raw) { to = static_cast<int>(raw); }
void Assign(Bytes& to, double raw) { to = RoundedBytes(raw); }
void Assign(BytesPerSecond& to, double raw) { to = {raw}; }
void Assign(FlopsPerSecond& to, double raw) { to = {raw}; }
void Assign(Seconds& to, double raw) { to = Seconds(raw); }

// Returns the member at the end of a path of member pointers.
template <auto First, auto... Rest>
auto& Reach(auto& object) {
  if constexpr (sizeof...(Rest) == 0) {
    return object.*First;
  } else {
    return Reach<Rest...>(object.*First);
  }
}

using Group = FigureGroup;
using Need = FigureNeed;

struct Range {
  double low;
  double high;
};

template <auto... Path>
constexpr NumberFigure Number(std::string_view key, Group group, Need need, Range range,
                              bool is_whole = false) {
  return {.key = key,
          .group = group,
          .need = need,
          .is_whole = is_whole,
          .low = range.low,
          .high = range.high,
          .get = [](const ChipSpec& s) -> std::optional<double> { return Raw(Reach<Path...>(s)); },
          .set = [](ChipSpec& s, double raw) { Assign(Reach<Path...>(s), raw); }};
}

template <Precision kPrecision>
constexpr NumberFigure Peak(std::string_view key, Group group = Group::kNone) {
  return {.key = key,
          .group = group,
          .need = Need::kOptional,
          .is_whole = false,
          .low = 1e9,
          .high = 1e17,
          .get = [](const ChipSpec& s) -> std::optional<double> {
            const auto found = s.peak.find(kPrecision);
            if (found == s.peak.end()) return std::nullopt;
            return found->second.rate;
          },
          .set = [](ChipSpec& s, double raw) { s.peak[kPrecision] = {raw}; }};
}

// Returns a figure that was achieved, in contrast to a nominal one.
constexpr NumberFigure Shown(std::string_view key, Range range) {
  return {.key = key,
          .group = Group::kShown,
          .need = Need::kOptional,
          .is_whole = false,
          .low = range.low,
          .high = range.high,
          .get = [](const ChipSpec&) -> std::optional<double> { return std::nullopt; },
          .set = [](ChipSpec&, double) {}};
}

template <auto... Path>
constexpr WordFigure Choice(std::string_view key) {
  return {.key = key,
          .get = [](const ChipSpec& s) { return Word(Reach<Path...>(s)); },
          .set =
              [](ChipSpec& s, std::string_view word) {
                auto& to = Reach<Path...>(s);
                const auto parsed = ParseChoice<std::remove_reference_t<decltype(to)>>(word);
                if (parsed.has_value()) to = *parsed;
                return parsed.has_value();
              },
          .allowed =
              [] {
                return AllowedWords<
                    std::remove_cvref_t<decltype(Reach<Path...>(std::declval<ChipSpec&>()))>>();
              }};
}

// Ranges catch a wrong unit (GB for bytes, microseconds for seconds), not an unusual chip.
constexpr Range kBytesRange = {1e9, 1e14};
constexpr Range kRateRange = {1e9, 1e15};
constexpr Range kReachedRange = {1e6, 1e17};  // slow boards too, since a measurement is no mistake
constexpr Range kShare = {0.01, 2};           // above 1 if a measurement beat the nominal figure
constexpr Range kShortTime = {0, 1e-3};
constexpr Range kDevices = {1, 1e6};

using S = ChipSpec;
using Gemm = GemmModel;
using Attention = AttentionModel;
constexpr NumberFigure kNumberFigures[] = {
    Number<&S::memory_capacity>("memory_capacity_bytes", Group::kMemory, Need::kRequired,
                                kBytesRange, true),
    Number<&S::reported_memory_capacity>("reported_memory_capacity_bytes", Group::kNone,
                                         Need::kOptional, kBytesRange, true),
    Number<&S::memory_bandwidth>("memory_bandwidth_bytes_per_second", Group::kMemory,
                                 Need::kRequired, kRateRange),
    Shown("measured_memory_bandwidth_bytes_per_second", kReachedRange),
    Peak<Precision::kBf16>("peak_bf16_flops_per_second", Group::kPeak),
    Peak<Precision::kFp16>("peak_fp16_flops_per_second", Group::kPeak),
    Peak<Precision::kFp8>("peak_fp8_flops_per_second"),
    Peak<Precision::kFp32>("peak_fp32_flops_per_second"),
    Shown("measured_peak_bf16_flops_per_second", kReachedRange),
    Shown("measured_peak_fp16_flops_per_second", kReachedRange),
    Shown("measured_peak_fp8_flops_per_second", kReachedRange),
    Shown("measured_peak_fp32_flops_per_second", kReachedRange),
    Number<&S::vector_peak>("vector_peak_flops_per_second", Group::kNone, Need::kDefaulted,
                            {1e9, 1e17}),
    Number<&S::power_limit_watts>("power_limit_watts", Group::kNone, Need::kOptional, {1, 1e5}),
    Number<&S::core_count>("core_count", Group::kNone, Need::kDefaulted, {1, 1e5}, true),
    Number<&S::cache>("cache_bytes", Group::kNone, Need::kDefaulted, {1e5, 1e12}, true),
    Number<&S::cache_bandwidth_ratio>("cache_bandwidth_ratio", Group::kNone, Need::kDefaulted,
                                      {1, 100}),
    Number<&S::memory_bound_efficiency>("memory_bound_efficiency_ratio", Group::kMemoryBound,
                                        Need::kDefaulted, kShare),
    Number<&S::stream_efficiency>("stream_efficiency_ratio", Group::kNone, Need::kDefaulted,
                                  kShare),
    Number<&S::permutation_efficiency>("permutation_efficiency_ratio", Group::kNone,
                                       Need::kDefaulted, kShare),
    Number<&S::host_link>("host_link_bandwidth_bytes_per_second", Group::kNone, Need::kDefaulted,
                          {1e8, 1e13}),
    Number<&S::overlap_slowdown>("overlap_slowdown_ratio", Group::kNone, Need::kDefaulted, {0, 2}),
    Number<&S::memory_bound_fixed>("memory_bound_fixed_seconds", Group::kNone, Need::kDefaulted,
                                   kShortTime),
    Number<&S::sustained_time_ratio>("sustained_time_ratio", Group::kNone, Need::kDefaulted,
                                     {0.5, 5}),
    Number<&S::gemm, &Gemm::compute_efficiency>("gemm_compute_efficiency_ratio", Group::kGemm,
                                                Need::kDefaulted, kShare),
    Number<&S::gemm, &Gemm::memory_efficiency>("gemm_memory_efficiency_ratio", Group::kGemm,
                                               Need::kDefaulted, kShare),
    Number<&S::gemm, &Gemm::fixed>("gemm_fixed_seconds", Group::kGemm, Need::kDefaulted,
                                   kShortTime),
    Number<&S::gemm, &Gemm::intensity_half>("gemm_intensity_half_ratio", Group::kGemm,
                                            Need::kDefaulted, {0, 100}),
    Number<&S::gemm, &Gemm::fill>("gemm_fill_elements", Group::kGemm, Need::kDefaulted, {0, 1e5}),
    Number<&S::gemm, &Gemm::quantisation>("gemm_quantisation_ratio", Group::kGemm, Need::kDefaulted,
                                          {0, 1}),
    Number<&S::gemm, &Gemm::norm_exponent>("gemm_norm_exponent", Group::kGemm, Need::kDefaulted,
                                           {1, 100}),
    Number<&S::gemm, &Gemm::split_k>("gemm_split_k_seconds", Group::kGemm, Need::kDefaulted,
                                     kShortTime),
    Number<&S::attention, &Attention::efficiency>("attention_efficiency_ratio", Group::kAttention,
                                                  Need::kDefaulted, kShare),
    Number<&S::attention, &Attention::sequence_half>("attention_sequence_half_tokens",
                                                     Group::kAttention, Need::kDefaulted, {0, 1e5}),
    Number<&S::attention, &Attention::wave_half>("attention_wave_half", Group::kAttention,
                                                 Need::kDefaulted, {0, 100}),
    Number<&S::attention, &Attention::flash2_ratio>("attention_flash2_ratio", Group::kNone,
                                                    Need::kDefaulted, kShare),
    Number<&S::attention, &Attention::small_head_ratio>("attention_small_head_ratio", Group::kNone,
                                                        Need::kDefaulted, kShare),
    Number<&S::attention, &Attention::backward_time_ratio>(
        "attention_backward_time_ratio", Group::kAttention, Need::kDefaulted, {0.5, 20}),
    Number<&S::attention, &Attention::backward_sequence_half>(
        "attention_backward_sequence_half_tokens", Group::kNone, Need::kOptional, {0, 1e5}),
    Number<&S::attention, &Attention::backward_wave_half>("attention_backward_wave_half",
                                                          Group::kNone, Need::kOptional, {0, 100}),
    Number<&S::scale_up, &ScaleUpLink::bandwidth>("scale_up_bandwidth_bytes_per_second",
                                                  Group::kNone, Need::kDefaulted, {1e7, 1e14}),
    Number<&S::scale_up, &ScaleUpLink::domain_size>("scale_up_domain_device_count", Group::kNone,
                                                    Need::kDefaulted, kDevices, true),
    Number<&S::torus_axis_count>("torus_axis_count", Group::kNone, Need::kDefaulted, {2, 6}, true),
    Shown("measured_all_reduce_2_ranks_bytes_per_second", kReachedRange),
    Shown("measured_all_reduce_4_ranks_bytes_per_second", kReachedRange),
    Shown("measured_all_reduce_8_ranks_bytes_per_second", kReachedRange),
    Number<&S::usual_node, &UsualNode::device_count>("usual_node_device_count", Group::kNone,
                                                     Need::kDefaulted, kDevices, true),
    Number<&S::usual_node, &UsualNode::nic_count>("usual_node_nic_count", Group::kNone,
                                                  Need::kDefaulted, {1, 1e4}, true),
    Number<&S::usual_node, &UsualNode::nic_gigabits_per_second>(
        "usual_node_nic_gigabits_per_second", Group::kNone, Need::kDefaulted, {1, 1e5}),
    Number<&S::runtime_context>("runtime_context_bytes", Group::kNone, Need::kDefaulted, {0, 1e11},
                                true),
};

}  // namespace

std::span<const NumberFigure> NumberFigures() { return kNumberFigures; }

std::span<const WordFigure> WordFigures() {
  static constexpr WordFigure kTable[] = {
      Choice<&ChipSpec::scale_up, &ScaleUpLink::kind>("scale_up_kind"),
      Choice<&ChipSpec::scale_up, &ScaleUpLink::topology>("scale_up_topology"),
      Choice<&ChipSpec::usual_node, &UsualNode::nic_kind>("usual_node_nic_kind"),
  };
  return kTable;
}

void DeriveDefaults(const std::set<std::string_view>& given, ChipSpec& spec) {
  const auto is_missing = [&given](std::string_view key) { return !given.contains(key); };
  if (is_missing("vector_peak_flops_per_second")) {
    // The ratio 1/16 is that of A100 (19.5 of 312), and nearly that of H100 (67 of 989).
    FlopsPerSecond fastest = {};
    for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
      const auto found = spec.peak.find(precision);
      if (found != spec.peak.end()) fastest = std::max(fastest, found->second);
    }
    spec.vector_peak = fastest * (1.0 / 16);
  }
  if (is_missing("stream_efficiency_ratio")) {
    // The ratio 0.76 is that of training kernels to copies on A100 (0.65 to 0.85 of nominal).
    spec.stream_efficiency = std::min(spec.stream_efficiency, spec.memory_bound_efficiency / 0.76);
  }
  if (is_missing("core_count")) spec.core_count = 100;                   // near A100, H100
  if (is_missing("cache_bytes")) spec.cache = {std::int64_t{32} << 20};  // A100 has 40 MiB
  if (is_missing("scale_up_bandwidth_bytes_per_second")) {
    spec.scale_up.bandwidth = {63e9};  // PCIe 5 x16
  }
  if (is_missing("scale_up_domain_device_count")) {
    spec.scale_up.domain_size = spec.usual_node.device_count;
  }
  if (is_missing("torus_axis_count") && spec.scale_up.topology == NodeTopology::kTorus) {
    spec.torus_axis_count = 3;  // TPU v4, v5p and 7x
  }
  if (is_missing("usual_node_nic_count")) {
    spec.usual_node.nic_count = spec.usual_node.device_count;
  }
}

}  // namespace meshwright
