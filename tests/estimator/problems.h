#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/frameworks/framework_library.h"
#include "estimator/layer/layer_program.h"
#include "estimator/model/analytic_model.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "tests/search_space/models.h"
#include "vendor_models/catalogue.h"

namespace meshwright {

// An EstimatorProblem that owns what it refers to.
struct OwnedProblem {
  ModelSpec model = {};
  Workload workload = {};
  FrameworkProfile profile = {};
  ClusterSpec cluster = {};

  [[nodiscard]] EstimatorProblem View() const {
    return {.model = model, .workload = workload, .profile = profile, .cluster = cluster};
  }
};

// A pool whose chip has no fitted constants: 300 GB/s switched links in the node, 25 GB/s and 40 us
// between nodes for each of its eight devices. All figures are ours, chosen for arithmetic by hand.
inline NodePool PlainPool(int node_count) {
  NodePool pool = {.name = "a", .node_count = node_count, .devices_per_node = 8};
  pool.chip.id = "plain";
  pool.chip.confidence = Confidence::kHigh;
  pool.chip.memory_capacity = GiB(80);
  pool.chip.memory_bandwidth = {2e12};
  pool.chip.memory_bound_efficiency = 0.8;
  pool.chip.peak = {{Precision::kBf16, {312e12}}, {Precision::kFp16, {312e12}}};
  pool.chip.core_count = 108;
  pool.chip.scale_up = {.bandwidth = {300e9}, .domain_size = 8};
  pool.intra_node = pool.chip.scale_up;
  pool.inter_node = {.nic_count = 8, .nic_bandwidth = {25e9}, .latency = Seconds(40e-6)};
  pool.memory_capacity = GiB(80);
  return pool;
}

// `model` on PlainPool under a profile of defaults, without overlap, with fused kernels.
inline OwnedProblem PlainProblem(ModelSpec model, int node_count) {
  return {.model = std::move(model),
          .workload = {.sequence_length = 4096, .global_batch_size = 64},
          .profile = {},
          .cluster = {.name = "c", .pools = {PlainPool(node_count)}}};
}

inline const Catalogue& Chips() {
  static const Catalogue* const chips = new Catalogue(Catalogue::LoadBuiltIn().value());
  return *chips;
}

inline const FrameworkLibrary& Frameworks() {
  static const FrameworkLibrary* const library =
      new FrameworkLibrary(FrameworkLibrary::LoadBuiltIn().value());
  return *library;
}

// Nodes of eight devices as the chip usually comes in.
inline NodePool PoolOf(std::string_view chip, int node_count) {
  const ChipSpec& spec = Chips().Find(chip).value()->spec;
  return {.name = "a",
          .chip = spec,
          .node_count = node_count,
          .devices_per_node = 8,
          .intra_node = spec.scale_up,
          .inter_node = {.nic_count = 8, .nic_bandwidth = {25e9}, .latency = Seconds(40e-6)},
          .memory_capacity = spec.memory_capacity};
}

// Returns what the tuner resolves for a workload that states only its lengths.
inline Workload WorkloadOf(const ModelSpec& model, const FrameworkProfile& profile,
                           int sequence_length, int batch) {
  const bool is_bf16 = profile.precision == Precision::kBf16;
  const bool has_layernorm = model.norm == NormKind::kLayernorm;
  return {.sequence_length = sequence_length,
          .global_batch_size = batch,
          .precision = profile.precision,
          .attention_kernel = profile.attention_kernel,
          .norm_kernel = profile.norm_kernel,
          .cross_entropy_kernel = profile.cross_entropy_kernel,
          .optimizer = profile.optimizer,
          .gradient_dtype = is_bf16 ? profile.bf16_gradient_dtype.value_or(profile.gradient_dtype)
                                    : profile.gradient_dtype,
          .grouped_gemm = profile.grouped_gemm,
          .dropout_ratio = has_layernorm
                               ? profile.layernorm_dropout_ratio.value_or(profile.dropout_ratio)
                               : profile.dropout_ratio,
          .overlap = profile.overlap,
          .moe = profile.moe};
}

// `model` on real chips under a framework's own profile.
inline OwnedProblem FrameworkProblem(ModelSpec model, std::string_view chip, int node_count,
                                     std::string_view framework) {
  OwnedProblem problem = {.model = std::move(model)};
  problem.profile = Frameworks().Find(framework, "").entry->profile;
  problem.workload = WorkloadOf(problem.model, problem.profile, 4096, 512);
  problem.cluster = {.name = "c", .pools = {PoolOf(chip, node_count)}};
  return problem;
}

inline Estimate FullOf(const OwnedProblem& problem, const ParallelPlan& plan) {
  return AnalyticModel(problem.View()).Full(plan);
}

// One layer of the problem's model under `sharding`.
inline LayerProgram LayerOf(const OwnedProblem& problem, const LayerSharding& sharding,
                            bool is_moe = false) {
  const LayerList layers(problem.model);
  return BuildLayer({.model = problem.model,
                     .workload = problem.workload,
                     .profile = problem.profile,
                     .sharding = sharding},
                    is_moe ? layers.kinds().back() : layers.kinds().front());
}

// The kernels of a program with this name.
inline std::vector<Kernel> Named(const LayerProgram& program, std::string_view name) {
  std::vector<Kernel> found;
  for (const Kernel& kernel : program.kernels) {
    if (kernel.name == name) found.push_back(kernel);
  }
  return found;
}

inline double Line(const Estimate& estimate, TimeCause cause) {
  return estimate.breakdown[static_cast<std::size_t>(cause)].count();
}

inline double Line(const MemoryBreakdown& breakdown, MemoryKind kind) {
  return static_cast<double>(breakdown[static_cast<std::size_t>(kind)].count);
}

}  // namespace meshwright
