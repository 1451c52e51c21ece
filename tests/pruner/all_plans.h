#pragma once

#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/legality/legality.h"
#include "estimator/model/analytic_model.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

using Evaluated = RecomputeChoice;

// Tells which plans one rule rejects by their sizes. The problem must outlive it.
class RejectedBy {
 public:
  RejectedBy(std::string_view rule, const Problem& problem)
      : view_(ToEstimatorProblem(problem)), space_(SpaceOf(problem)) {
    for (const PruneRule& row : PruneRules()) {
      if (row.name == rule) on_prefix_ = row.on_prefix;
    }
  }

  bool operator()(const ParallelPlan& plan) const {
    for (int depth = 1; depth <= kDimensionCount && on_prefix_ != nullptr; ++depth) {
      if (on_prefix_({.problem = view_, .space = space_}, plan, depth).has_value()) return true;
    }
    return false;
  }

 private:
  EstimatorProblem view_;
  SearchSpace space_;
  decltype(PruneRule::on_prefix) on_prefix_ = nullptr;
};

// All legal plans with their costs, listed by plain loops that share no code with SearchSpace.
class AllPlans {
 public:
  explicit AllPlans(const Problem& problem, const Calibration& calibration = {})
      : problem_(problem),
        model_(ToEstimatorProblem(problem), calibration),
        is_refused_("framework", problem),
        is_indivisible_("divisibility", problem) {
    const int devices = DeviceCount(problem.cluster);
    for (int t = 1; t <= devices; ++t) {
      for (int c = 1; c * t <= devices; ++c) {
        for (int p = 1; p * c * t <= devices; ++p) {
          if (devices % (t * c * p) != 0 || p > problem.model.layer_count) continue;
          for (const ContextParallelKind kind : problem.profile.context_parallel_kinds) {
            AddShape({.tensor_parallel = t,
                      .pipeline_parallel = p,
                      .data_parallel = devices / (t * c * p),
                      .context_parallel = c,
                      .context_parallel_kind = kind});
            if (c == 1) break;  // all kinds are alike
          }
        }
      }
    }
  }

  [[nodiscard]] const std::vector<Evaluated>& plans() const { return plans_; }

 private:
  void AddShape(ParallelPlan plan) {
    const int experts = problem_.model.moe.has_value() ? problem_.model.moe->expert_count : 1;
    const int expert_tensor = problem_.model.moe.has_value() ? plan.tensor_parallel : 1;
    for (plan.expert_parallel = 1; plan.expert_parallel <= experts; ++plan.expert_parallel) {
      for (int x = 1; x <= expert_tensor; ++x) {
        if (expert_tensor % x != 0) continue;
        plan.expert_tensor_parallel = x;
        AddRankOrders(plan);
      }
    }
  }

  // Adds both orders if they put different ranks into a node.
  void AddRankOrders(ParallelPlan plan) {
    const int node = ScaleUpDeviceCount(problem_.cluster.pools.front());
    const bool differ = plan.pipeline_parallel > 1 && plan.data_parallel > 1 &&
                        DeviceCount(problem_.cluster) > node &&
                        plan.tensor_parallel * plan.context_parallel % node != 0;
    for (const RankOrder order : problem_.profile.rank_orders) {
      if (order != RankOrder::kTpCpEpDpPp && !differ) continue;
      plan.rank_order = order;
      for (const bool is_sequence_parallel : {false, true}) {
        plan.sequence_parallel = is_sequence_parallel;
        AddSchedules(plan);
      }
    }
  }

  void AddSchedules(ParallelPlan plan) {
    for (const Schedule schedule : problem_.profile.schedules) {
      plan.schedule = schedule;
      plan.virtual_pipeline = 1;
      if (plan.pipeline_parallel == 1 && schedule != Schedule::k1f1b) continue;
      if (schedule == Schedule::kInterleaved1f1b) {
        AddVirtualStages(plan);
        continue;
      }
      AddSchedule(plan);
      const bool is_folded = LayoutOf(schedule, plan.pipeline_parallel, 1).IsFolded();
      if (problem_.profile.sizes_end_stages && !is_folded) AddEndStages(plan);
    }
  }

  // Adds splits in which the inner stages are equal, no end is larger, and chunks are equal.
  void AddEndStages(ParallelPlan plan) {
    const int v = plan.virtual_pipeline;
    const int layers = problem_.model.layer_count;
    const int p = plan.pipeline_parallel;
    const std::vector<int> usual = SplitLayers(problem_.model, problem_.profile, p);
    for (int first = v; p > 1 && first < layers; first += v) {
      for (int last = v; first + last <= layers; last += v) {
        const int rest = layers - first - last;
        if (p == 2 ? rest != 0 : rest % (p - 2) != 0) continue;
        const int middle = p == 2 ? std::max(first, last) : rest / (p - 2);
        if (middle < std::max(first, last) || middle % v != 0) continue;
        plan.layers_per_stage.assign(static_cast<std::size_t>(p), middle);
        plan.layers_per_stage.front() = first;
        plan.layers_per_stage.back() = last;
        if (plan.layers_per_stage != usual) AddSchedule(plan);
      }
    }
  }

  void AddVirtualStages(ParallelPlan plan) {
    const int layers = problem_.model.layer_count;
    const int p = plan.pipeline_parallel;
    for (int v = 2; v * p <= layers; ++v) {
      plan.virtual_pipeline = v;
      if (layers % (v * p) == 0) AddSchedule(plan);
      if (problem_.profile.sizes_end_stages) AddEndStages(plan);
    }
  }

  void AddSchedule(ParallelPlan plan) {
    const int share = problem_.workload.global_batch_size / plan.data_parallel;
    const int p = plan.pipeline_parallel;
    const std::vector<int>& layers = plan.layers_per_stage;
    const int stage = layers.empty() ? (problem_.model.layer_count + p - 1) / p
                                     : *std::max_element(layers.begin(), layers.end());
    for (plan.micro_batch_size = 1; plan.micro_batch_size <= share; ++plan.micro_batch_size) {
      plan.recompute = {};
      plan.zero_stage = 0;
      plan.zero_group_size = 0;
      if (share % plan.micro_batch_size != 0) continue;
      if (!CheckPlan(plan, problem_, "plan").empty()) continue;  // ZeRO and recomputation are free
      for (plan.zero_stage = 0; plan.zero_stage <= 3; ++plan.zero_stage) {
        if (!is_indivisible_(plan) && !is_refused_(plan)) AddSharding(plan, stage);
      }
    }
  }

  void AddSharding(ParallelPlan plan, int largest_stage) {
    for (const int percent : problem_.space.whole_weights_percents) {
      if (percent > 0 && plan.zero_stage < 3) continue;
      plan.whole_weights_ratio = percent / 100.0;
      AddRecomputation(plan, largest_stage);
      if (plan.zero_stage > 0 && problem_.profile.shards_in_groups) AddGroups(plan, largest_stage);
    }
  }

  void AddGroups(ParallelPlan plan, int largest_stage) {
    const int all = plan.data_parallel * plan.context_parallel;
    for (plan.zero_group_size = 2; plan.zero_group_size < all; ++plan.zero_group_size) {
      if (all % plan.zero_group_size == 0) AddRecomputation(plan, largest_stage);
    }
  }

  void AddRecomputation(ParallelPlan plan, int largest_stage) {
    const bool is_open = problem_.profile.offloads_optimizer && plan.zero_stage > 0;
    for (const double ratio : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      plan.optimizer_offload_ratio = ratio;
      if ((ratio != 0 && !is_open) || is_refused_(plan)) continue;
      AddChoices(plan, largest_stage);
      AddActivationOffload(plan);
    }
  }

  void AddActivationOffload(ParallelPlan plan) {
    const FrameworkProfile& profile = problem_.profile;
    if (!profile.offloads_activations) return;
    if (profile.activation_offload_needs_one_stage && plan.pipeline_parallel > 1) return;
    plan.recompute = {};
    for (const double ratio : {0.25, 0.5, 0.75, 1.0}) {
      plan.activation_offload_ratio = ratio;
      if (!is_refused_(plan)) Add(plan);
    }
  }

  void AddChoices(ParallelPlan plan, int largest_stage) {
    plan.recompute = {};
    Add(plan);
    plan.recompute.granularity = RecomputeGranularity::kSelective;
    Add(plan);
    plan.recompute.granularity = RecomputeGranularity::kFull;
    for (int k = plan.virtual_pipeline; k <= largest_stage; k += plan.virtual_pipeline) {
      plan.recompute.layer_counts.assign(static_cast<std::size_t>(plan.pipeline_parallel), k);
      Add(plan);
    }
    const bool has_numbers = problem_.profile.recomputes_by_stage && HasFixedOrder(plan.schedule);
    if (has_numbers && plan.pipeline_parallel > 1) AddNumbers(plan, largest_stage, 0);
    if (problem_.profile.mixes_recompute && HasFixedOrder(plan.schedule)) {
      plan.recompute.layer_counts.assign(static_cast<std::size_t>(plan.pipeline_parallel), 0);
      plan.recompute.selective_layer_counts = plan.recompute.layer_counts;
      AddMixes(plan, largest_stage, 0);
    }
  }

  // Adds every number of full and of selective layers in stage `stage` and the later ones.
  void AddMixes(ParallelPlan plan, int largest_stage, std::size_t stage) {
    RecomputePlan& recompute = plan.recompute;
    if (stage == recompute.layer_counts.size()) {
      const auto is_zero = [](int count) { return count == 0; };
      const std::vector<int>& full = recompute.layer_counts;
      if (std::ranges::all_of(recompute.selective_layer_counts, is_zero)) {
        // Skips plans that are written as equal numbers of full layers, which were added already.
        if (std::ranges::adjacent_find(full, std::not_equal_to()) == full.end()) return;
        recompute.selective_layer_counts.clear();
      }
      Add(plan);
      return;
    }
    const int step = plan.virtual_pipeline;
    for (int full = 0; full <= largest_stage; full += step) {
      for (int selective = 0; full + selective <= largest_stage; selective += step) {
        recompute.layer_counts[stage] = full;
        recompute.selective_layer_counts[stage] = selective;
        AddMixes(plan, largest_stage, stage + 1);
      }
    }
  }

  // Adds every combination of numbers of recomputed layers in stage `stage` and the later ones,
  // unless all are equal.
  void AddNumbers(ParallelPlan plan, int largest_stage, std::size_t stage) {
    std::vector<int>& counts = plan.recompute.layer_counts;
    if (stage == counts.size()) {
      const bool is_equal = std::ranges::adjacent_find(counts, std::not_equal_to()) == counts.end();
      if (!is_equal) Add(plan);
      return;
    }
    for (int k = 0; k <= largest_stage; k += plan.virtual_pipeline) {
      counts[stage] = k;
      AddNumbers(plan, largest_stage, stage + 1);
    }
  }

  void Add(const ParallelPlan& plan) {
    if (BrokenRule(model_.problem(), plan, Dimension::kRecompute) != nullptr) return;
    plans_.push_back({plan, model_.Quick(plan)});
  }

  const Problem& problem_;
  AnalyticModel model_;
  RejectedBy is_refused_;
  RejectedBy is_indivisible_;
  std::vector<Evaluated> plans_;
};

// Returns the names of the rules that may reject the best plan.
inline std::vector<std::string> UnprovenRules() {
  std::vector<std::string> names;
  for (const PruneRule& rule : PruneRules()) {
    if (!rule.is_proven) names.emplace_back(rule.name);
  }
  return names;
}

// Returns the plans that the rules that are not proven accept.
inline std::vector<Evaluated> LeftByUnprovenRules(std::vector<Evaluated> plans,
                                                  const Problem& problem) {
  for (const std::string& rule : UnprovenRules()) {
    const RejectedBy is_rejected(rule, problem);
    std::erase_if(plans, [&](const Evaluated& e) { return is_rejected(e.plan); });
  }
  return plans;
}

// Returns the names of the rules that reject a plan by its sizes.
inline std::vector<std::string> RulesThatReject(const ParallelPlan& plan, const Problem& problem) {
  std::vector<std::string> names;
  for (const PruneRule& rule : PruneRules()) {
    if (RejectedBy(rule.name, problem)(plan)) names.emplace_back(rule.name);
  }
  return names;
}

// Prints a plan in a failure.
inline void PrintTo(const ParallelPlan& plan, std::ostream* out) { *out << MakePlanKey(plan).text; }

}  // namespace meshwright
