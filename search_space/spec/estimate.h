#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The causes that make up a step's time. The lines of a breakdown add up to the step time.
enum class TimeCause {
  kMatmul,             // dense and grouped GEMMs of the layers
  kAttention,          // attention kernels
  kMemoryBound,        // norms, activations, rotary, residuals, routing
  kVocabulary,         // embedding, output layer, loss
  kRecompute,          // forward work that is repeated
  kActivationOffload,  // exposed copies of activations to the host and back
  kHost,               // launches that the device waited for
  kTensorParallel,     // exposed collectives, each by its group
  kContextParallel,
  kExpertParallel,
  kPipelineP2p,
  kPipelineBubble,  // warm-up, drain and imbalance of the stages
  kDataParallel,    // exposed gradient reduction and parameter gathering
  kOptimizer,
  kFixed,  // per-step work of the framework that no other line includes
};
inline constexpr std::size_t kTimeCauseCount = 15;

enum class MemoryKind {
  kWeights,
  kGradients,
  kOptimizerStates,
  kActivations,     // stored for the backward pass, all micro-batches in flight
  kTransient,       // working set on top: logits, gathered weights, recomputation
  kFrameworkCache,  // memory that the framework keeps between steps
};
inline constexpr std::size_t kMemoryKindCount = 6;

std::string_view Word(TimeCause cause);  // "matmul", ...: keys of breakdown_seconds
std::string_view Word(MemoryKind kind);  // "weights", ...: keys of memory_breakdown_bytes

using TimeBreakdown = std::array<Seconds, kTimeCauseCount>;
using MemoryBreakdown = std::array<Bytes, kMemoryKindCount>;

// A value that the user did not state, with the source that it was taken from.
struct AppliedDefault {
  std::string field = {};
  std::string value = {};
  std::string source = {};
  bool operator==(const AppliedDefault&) const = default;
};

struct StageMemory {
  Bytes peak = {};
  MemoryBreakdown breakdown = {};
  bool operator==(const StageMemory&) const = default;
};

// The figures of a stage that names its pool.
struct StageEstimate {
  std::string pool = {};
  int replica_group = 0;         // its place in ParallelPlan::replica_groups
  Seconds forward = Seconds(0);  // of one micro-batch, without messages, here and below
  Seconds backward = Seconds(0);
  Seconds messages = Seconds(0);  // to both neighbours and from them
  Bytes reserved_memory = {};
  Bytes memory_capacity = {};
  bool fits = false;
  double idle_ratio = 0;  // the share of the step in which the stage computes nothing
  bool operator==(const StageEstimate&) const = default;
};

// The vendor's cost model that made an estimate's times, as it identified itself when it answered.
struct CostModelSource {
  std::string name = {};
  std::string vendor = {};
  std::string version = {};
  std::string protocol = {};
  std::string checksum = {};     // SHA-256
  std::string calibration = {};  // version of the fitted parameters; empty: the model's own
  bool is_fallback = false;  // the model could not be asked, so the times are the built-in model's
  std::string reason = {};   // reason of a fallback
  std::optional<Bytes> peak_memory = {};
  bool operator==(const CostModelSource&) const = default;
};

// The sources of uncertainty besides the constants behind the lines of the breakdown.
namespace uncertainty_source {
inline constexpr std::string_view kFramework = "framework";  // scatter of the framework's runs
inline constexpr std::string_view kChips = "chips";          // chips that no run was checked on
inline constexpr std::string_view kScale = "scale";          // more devices than any checked run
inline constexpr std::string_view kMeasuredRuns = "measured_runs";  // scatter of the history's runs
inline constexpr std::string_view kReplicas = "replicas";           // replicas that differ
inline constexpr std::string_view kMemoryPressure = "memory_pressure";  // a nearly full device
}  // namespace uncertainty_source

// The predicted cost of a plan. docs/glossary/figures.md defines each figure.
struct Estimate {
  Seconds step_time = Seconds(0);
  Seconds step_time_low = Seconds(0);  // low and high bound the central 80%
  Seconds step_time_high = Seconds(0);
  double tokens_per_second_per_device = 0;
  double model_flops_utilization = 0;
  Bytes peak_memory = {};      // allocated, busiest stage
  Bytes reserved_memory = {};  // memory that the device shows in use
  Bytes memory_capacity = {};  // capacity of the busiest stage's device
  bool fits = false;
  double fit_probability = 0;
  int busiest_stage = 0;
  TimeBreakdown breakdown = {};
  // The provenance of the constants behind each line of the breakdown that is not 0; empty if the
  // times are not the built-in model's.
  std::map<TimeCause, Provenance> breakdown_provenance = {};
  // The shares of the variance above the step time (of its logarithm), by source: the words of
  // uncertainty_source and of time causes. They add up to 1; empty if the interval is not the
  // built-in model's.
  std::map<std::string, double> uncertainty_ratio_by_source = {};
  MemoryBreakdown memory_breakdown = {};       // breakdown of the busiest stage
  std::vector<StageMemory> stage_memory = {};  // every pipeline stage
  std::vector<StageEstimate> stages = {};      // the same stages; empty unless they name pools
  // The nodes that stages which name their pools leave idle; pools that they use whole are absent.
  std::map<std::string, int> idle_nodes_by_pool = {};
  Tier tier = Tier::kClosedForm;
  Provenance provenance = Provenance::kAssumed;
  std::vector<AppliedDefault> applied_defaults = {};  // defaults of the plan
  std::vector<std::string> warnings = {};
  std::optional<CostModelSource> cost_model = {};  // absent: the built-in model made all figures
  bool operator==(const Estimate&) const = default;
};

// The two figures that rank and filter plans; equal to Estimate's, bit for bit.
struct QuickEstimate {
  Seconds step_time = Seconds(0);
  Bytes reserved_memory = {};
  bool fits = false;
};

}  // namespace meshwright
