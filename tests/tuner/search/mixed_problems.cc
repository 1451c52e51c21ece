#include "tests/tuner/search/mixed_problems.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "estimator/legality/legality.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/stage_runs.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/checker.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

int Below(std::mt19937_64& random, int end) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(end));
}

template <typename Value>
Value OneOf(std::mt19937_64& random, const std::vector<Value>& values) {
  return values[static_cast<std::size_t>(Below(random, static_cast<int>(values.size())))];
}

// Lists plans depth first.
class Lister {
 public:
  Lister(const Problem& problem, const Calibration& calibration, std::int64_t limit)
      : problem_(problem),
        estimator_problem_(ToEstimatorProblem(problem)),
        model_(estimator_problem_, calibration),
        limit_(limit) {}

  std::optional<ListedMixes> List() {
    std::vector<int> pools;
    for (std::size_t i = 0; i < problem_.cluster.pools.size(); ++i) {
      pools.push_back(static_cast<int>(i));
    }
    for (const int sequences : Divisors(problem_.workload.global_batch_size)) {
      for (const bool splits : {false, true}) {
        for (int zero = 0; zero <= problem_.profile.largest_zero_stage_with_pipeline; ++zero) {
          ParallelPlan plan;
          plan.sequence_parallel = splits;
          plan.zero_stage = zero;
          sequences_ = sequences;
          std::vector<bool> used(pools.size(), false);
          AddStretch(plan, used);
        }
      }
    }
    if (listed_.count > limit_) return std::nullopt;
    return listed_;
  }

 private:
  // Adds one more pool to the end of the pipeline, or none.
  void AddStretch(const ParallelPlan& plan, std::vector<bool>& used) {
    if (listed_.count > limit_) return;
    if (std::ranges::count(used, true) > 1) SplitLayers(plan, 0, 0);
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      used[i] = true;
      const NodePool& pool = problem_.cluster.pools[i];
      for (const int stages : Divisors(pool.node_count)) AddStages(plan, pool, stages, used);
      used[i] = false;
    }
  }

  void AddStages(const ParallelPlan& plan, const NodePool& pool, int stages,
                 std::vector<bool>& used) {
    const int devices = pool.node_count / stages * pool.devices_per_node;
    for (const int tensor : Divisors(devices)) {
      if (pool.devices_per_node % tensor != 0) continue;
      for (const int context : Divisors(devices / tensor)) {
        const int data = devices / tensor / context;
        if (sequences_ % data != 0) continue;
        ParallelPlan longer = plan;
        longer.stages.insert(longer.stages.end(), static_cast<std::size_t>(stages),
                             {.pool = pool.name,
                              .node_count = pool.node_count / stages,
                              .tensor_parallel = tensor,
                              .data_parallel = data,
                              .context_parallel = context,
                              .layer_count = 1,
                              .micro_batch_size = sequences_ / data});
        AddStretch(longer, used);
      }
    }
  }

  // Shares out the layers from stage `stage` on.
  void SplitLayers(const ParallelPlan& plan, std::size_t stage, int before) {
    if (listed_.count > limit_) return;
    const int layers = problem_.model.layer_count;
    const auto rest = static_cast<int>(plan.stages.size() - stage);
    if (layers - before < rest) return;
    if (rest == 0) {
      Recompute(plan);
      return;
    }
    ParallelPlan own = plan;
    if (rest == 1) {
      own.stages[stage].layer_count = layers - before;
      SplitLayers(own, stage + 1, layers);
      return;
    }
    for (int count = 1; count <= layers - before - (rest - 1); ++count) {
      own.stages[stage].layer_count = count;
      SplitLayers(own, stage + 1, before + count);
    }
  }

  void Recompute(ParallelPlan plan) {
    plan.pipeline_parallel = static_cast<int>(plan.stages.size());
    const bool splits_none = std::ranges::all_of(
        plan.stages, [](const StagePlan& stage) { return stage.tensor_parallel == 1; });
    if (plan.sequence_parallel && splits_none) return;
    const bool splits_context = std::ranges::any_of(
        plan.stages, [](const StagePlan& stage) { return stage.context_parallel > 1; });
    for (const ContextParallelKind kind : problem_.space.context_parallel_kinds) {
      plan.context_parallel_kind = kind;
      RecomputeAnyWay(plan);
      if (!splits_context) return;  // all kinds are alike
    }
  }

  void RecomputeAnyWay(ParallelPlan plan) {
    if (!CheckPlan(plan, problem_, "plan").empty()) return;
    if (!BrokenRules(estimator_problem_, plan).empty()) return;
    for (const RecomputeGranularity all :
         {RecomputeGranularity::kNone, RecomputeGranularity::kSelective,
          RecomputeGranularity::kFull}) {
      for (StagePlan& stage : plan.stages) stage.recompute = {.granularity = all};
      Price(plan);
    }
    if (problem_.profile.name != "megatron-core") RecomputeByStage(plan);  // its stages are alike
  }

  // Recomputes in each stage as few layers as fit, by asking for one number after the other.
  void RecomputeByStage(ParallelPlan plan) {
    for (StagePlan& stage : plan.stages) stage.recompute = {};
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      StagePlan& stage = plan.stages[i];
      const auto fits = [&] {
        const StageRuns runs = model_.StagesOf(plan);
        const auto index = static_cast<int>(i);
        return model_.memory().Fits(runs, runs.StageAt(index), index);
      };
      for (int count = 0; !fits(); ++count) {
        if (count == stage.layer_count) return;
        stage.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {count + 1}};
      }
    }
    if (BrokenRules(estimator_problem_, plan).empty()) Price(plan);
  }

  void Price(const ParallelPlan& plan) {
    ++listed_.count;
    const QuickEstimate estimate = model_.Quick(plan);
    if (!estimate.fits) return;
    if (listed_.least.has_value() && *listed_.least <= estimate.step_time) return;
    listed_.least = estimate.step_time;
    listed_.fastest = plan;
  }

  const Problem& problem_;
  EstimatorProblem estimator_problem_;
  AnalyticModel model_;
  std::int64_t limit_;
  int sequences_ = 1;
  ListedMixes listed_;
};

// Lists plans whose replicas differ: pool by pool, then the layers and the recomputation of one
// stage after the other.
class ReplicaLister {
 public:
  ReplicaLister(const Problem& problem, std::int64_t limit)
      : problem_(problem),
        estimator_problem_(ToEstimatorProblem(problem)),
        model_(estimator_problem_, {}),
        limit_(limit) {}

  std::optional<ListedMixes> List() {
    for (const int tensor : Divisors(problem_.model.attention_head_count)) {
      for (const bool splits : {false, true}) {
        for (const int zero : {0, 1}) {
          for (const ContextParallelKind kind : problem_.space.context_parallel_kinds) {
            if (splits && tensor == 1) continue;
            ParallelPlan plan;
            plan.sequence_parallel = splits;
            plan.zero_stage = zero;
            plan.context_parallel_kind = kind;
            AddGroup(plan, 0, tensor, problem_.workload.global_batch_size);
          }
        }
      }
    }
    if (listed_.count > limit_) return std::nullopt;
    return listed_;
  }

 private:
  // Leaves out the pool of this index, or adds replicas on it. `left` are the sequences of the
  // batch that no replica has yet.
  void AddGroup(const ParallelPlan& plan, std::size_t index, int tensor, int left) {
    if (listed_.count > limit_) return;
    if (index == problem_.cluster.pools.size()) {
      if (left == 0 && plan.replica_groups.size() > 1) Finish(plan);
      return;
    }
    AddGroup(plan, index + 1, tensor, left);
    const NodePool& pool = problem_.cluster.pools[index];
    for (const int context : Divisors(DeviceCount(pool) / tensor)) {
      const int devices = tensor * context;
      if (DeviceCount(pool) % devices != 0 || tensor > pool.devices_per_node) continue;
      for (const int stages : Divisors(DeviceCount(pool) / devices)) {
        if (stages > problem_.model.layer_count) continue;
        const int replicas = DeviceCount(pool) / devices / stages;
        for (const int sequences : Divisors(problem_.workload.global_batch_size)) {
          for (int count = 1; count * replicas * sequences <= left; ++count) {
            ReplicaGroup group = {.replica_count = replicas, .micro_batch_count = count};
            group.stages.assign(static_cast<std::size_t>(stages),
                                {.pool = pool.name,
                                 .node_count = std::max(1, devices / pool.devices_per_node),
                                 .tensor_parallel = tensor,
                                 .context_parallel = context,
                                 .micro_batch_size = sequences});
            if (devices < pool.devices_per_node) {
              for (StagePlan& stage : group.stages) stage.device_count = devices;
            }
            ParallelPlan longer = plan;
            longer.replica_groups.push_back(group);
            AddGroup(longer, index + 1, tensor, left - count * replicas * sequences);
          }
        }
      }
    }
  }

  void Finish(ParallelPlan plan) {
    bool splits_context = false;
    for (ReplicaGroup& group : plan.replica_groups) {
      int left = problem_.model.layer_count;  // of an even split, to ask what is legal
      for (std::size_t i = 0; i < group.stages.size(); ++i) {
        const auto stages = static_cast<int>(group.stages.size() - i);
        group.stages[i].layer_count = left / stages;
        left -= left / stages;
        splits_context = splits_context || group.stages[i].context_parallel > 1;
      }
    }
    const bool is_first_kind =
        plan.context_parallel_kind == problem_.space.context_parallel_kinds.front();
    if (!splits_context && !is_first_kind) return;  // all kinds are alike
    std::ranges::sort(plan.replica_groups);
    plan.pipeline_parallel = StageCount(plan);
    plan.data_parallel = DeviceCount(problem_.cluster) / plan.pipeline_parallel;
    if (!CheckPlan(plan, problem_, "plan").empty()) return;
    if (!BrokenRules(estimator_problem_, plan).empty()) return;
    for (const RecomputeGranularity all :
         {RecomputeGranularity::kNone, RecomputeGranularity::kSelective,
          RecomputeGranularity::kFull}) {
      SplitLayers(plan, 0, 0, 0, all);
    }
  }

  // Shares out the layers from one stage of one group on.
  void SplitLayers(ParallelPlan& plan, std::size_t g, std::size_t stage, int before,
                   RecomputeGranularity recompute) {
    if (listed_.count > limit_) return;
    if (g == plan.replica_groups.size()) {
      Price(plan, recompute);
      return;
    }
    std::vector<StagePlan>& stages = plan.replica_groups[g].stages;
    const int layers = problem_.model.layer_count;
    const auto rest = static_cast<int>(stages.size() - stage);
    if (rest == 0) {
      SplitLayers(plan, g + 1, 0, 0, recompute);
      return;
    }
    for (int count = rest == 1 ? layers - before : 1; count <= layers - before - (rest - 1);
         ++count) {
      stages[stage].layer_count = count;
      SplitLayers(plan, g, stage + 1, before + count, recompute);
    }
  }

  // Under kFull each stage recomputes as few layers as fit. A framework may need stages of one
  // place to recompute alike in all groups: then as few as fit in all of them.
  void Price(ParallelPlan plan, RecomputeGranularity recompute) {
    for (ReplicaGroup& group : plan.replica_groups) {
      for (StagePlan& stage : group.stages) stage.recompute = {.granularity = recompute};
    }
    if (recompute == RecomputeGranularity::kFull && !RecomputeLeast(plan)) return;
    if (!BrokenRules(estimator_problem_, plan).empty()) {
      if (recompute != RecomputeGranularity::kFull) return;
      RecomputeAlike(plan);
      if (!BrokenRules(estimator_problem_, plan).empty()) return;
    }
    ++listed_.count;
    const QuickEstimate estimate = model_.Quick(plan);
    if (!estimate.fits) return;
    if (listed_.least.has_value() && *listed_.least <= estimate.step_time) return;
    listed_.least = estimate.step_time;
    listed_.fastest = plan;
  }

  bool RecomputeLeast(ParallelPlan& plan) {
    for (std::size_t g = 0; g < plan.replica_groups.size(); ++g) {
      for (std::size_t i = 0; i < plan.replica_groups[g].stages.size(); ++i) {
        StagePlan& stage = plan.replica_groups[g].stages[i];
        stage.recompute = {};
        const auto fits = [&] {
          const StageRuns runs(plan, g, estimator_problem_, model_.caches().units);
          const auto index = static_cast<int>(i);
          return model_.memory().Fits(runs, runs.StageAt(index), index);
        };
        for (int count = 0; !fits(); ++count) {
          if (count == stage.layer_count) return false;
          stage.recompute = {.granularity = RecomputeGranularity::kFull,
                             .layer_counts = {count + 1}};
        }
      }
    }
    return true;
  }

  // Gives stages of one place the recomputation of the group that needs most, if the groups have
  // equally many stages.
  static void RecomputeAlike(ParallelPlan& plan) {
    const std::size_t stages = plan.replica_groups.front().stages.size();
    for (const ReplicaGroup& group : plan.replica_groups) {
      if (group.stages.size() != stages) return;
    }
    for (std::size_t i = 0; i < stages; ++i) {
      const auto needs = [i](const ReplicaGroup& group) {
        const std::vector<int>& counts = group.stages[i].recompute.layer_counts;
        return counts.empty() ? 0 : counts.front();
      };
      const RecomputePlan most =
          std::ranges::max_element(plan.replica_groups, {}, needs)->stages[i].recompute;
      for (ReplicaGroup& group : plan.replica_groups) group.stages[i].recompute = most;
    }
  }

  const Problem& problem_;
  EstimatorProblem estimator_problem_;
  AnalyticModel model_;
  std::int64_t limit_;
  ListedMixes listed_;
};

// Gives the pools of two problems in three little memory: that of the states of the model and of
// the activations of some layers, more or less.
void ShortenMemory(std::mt19937_64& random, Problem& problem) {
  if (Below(random, 3) == 0) return;
  const double states = 18.0 * static_cast<double>(ParameterCount(problem.model, false));
  for (NodePool& pool : problem.cluster.pools) {
    const double share = (0.8 + 0.02 * Below(random, 150)) / DeviceCount(problem.cluster);
    pool.memory_capacity = Scale(GiB(2), 1) + RoundedBytes(states * share);
  }
}

}  // namespace

Problem RandomMixedProblem(std::mt19937_64& random) {
  Question question = {.model = TinyModel()};
  ModelSpec& model = question.model;
  model.layer_count = 4 + Below(random, 9);
  model.hidden_size = 1024 * (1 + Below(random, 4));
  model.ffn_hidden_size = 4 * model.hidden_size;
  model.head_dim = model.hidden_size / model.attention_head_count;
  model.tied_embeddings = Below(random, 3) == 0;
  question.workload = {
      .sequence_length = 1024 * (1 + Below(random, 4)),
      .global_batch_size = OneOf<int>(random, {4, 6, 8, 16}),
      .framework_name = OneOf<std::string>(random, {"generic", "flagscale", "megatron-core"})};
  if (Below(random, 3) == 0) question.workload.overlap.pipeline_p2p = true;
  const int pools = 2 + Below(random, 2);
  for (int i = 0; i < pools; ++i) {
    NodePoolRequest& pool = question.cluster.pools.emplace_back();
    pool.name = std::string(1, static_cast<char>('a' + i));
    pool.chip = OneOf<std::string>(
        random, {"nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb", "nvidia-v100-sxm2-32gb"});
    const std::vector<std::pair<int, int>> sizes =
        pools == 2
            ? std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {4, 2}, {2, 4}, {3, 1}, {4, 1}}
            : std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {2, 1}, {1, 1}};
    const auto [nodes, devices] = OneOf(random, sizes);
    pool.node_count = nodes;
    pool.devices_per_node = devices;
  }
  question.cluster.inter_pool.bandwidth_per_node =
      BytesPerSecond{OneOf<double>(random, {1e9, 5e9, 25e9, 100e9})};
  question.cluster.name = "mixed";
  Problem problem = ResolveProblem(question, Known()).value();
  ShortenMemory(random, problem);
  return problem;
}

Problem RandomReplicaProblem(std::mt19937_64& random) {
  Question question = {.model = TinyModel()};
  ModelSpec& model = question.model;
  model.layer_count = 2 + Below(random, 5);
  model.attention_head_count = model.kv_head_count = OneOf<int>(random, {2, 4, 16});
  model.hidden_size = 1024 * (1 + Below(random, 4));
  model.ffn_hidden_size = 4 * model.hidden_size;
  model.head_dim = model.hidden_size / model.attention_head_count;
  model.tied_embeddings = Below(random, 3) == 0;
  question.workload = {.sequence_length = 1024 * (1 + Below(random, 4)),
                       .global_batch_size = OneOf<int>(random, {3, 4, 6, 8, 12}),
                       .framework_name = "generic"};
  if (Below(random, 3) == 0) question.workload.overlap.pipeline_p2p = true;
  const int pools = 2 + (Below(random, 4) == 0 ? 1 : 0);
  for (int i = 0; i < pools; ++i) {
    NodePoolRequest& pool = question.cluster.pools.emplace_back();
    pool.name = std::string(1, static_cast<char>('a' + i));
    pool.chip = OneOf<std::string>(
        random, {"nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb", "nvidia-v100-sxm2-32gb"});
    const auto [nodes, devices] = OneOf<std::pair<int, int>>(
        random, pools == 2
                    ? std::vector<std::pair<int, int>>{{1, 2}, {2, 2}, {2, 1}, {1, 4}, {3, 1}}
                    : std::vector<std::pair<int, int>>{{1, 2}, {2, 1}, {1, 1}});
    pool.node_count = nodes;
    pool.devices_per_node = devices;
  }
  question.cluster.inter_pool.bandwidth_per_node =
      BytesPerSecond{OneOf<double>(random, {1e9, 5e9, 25e9, 100e9})};
  question.cluster.name = "mixed";
  Problem problem = ResolveProblem(question, Known()).value();
  ShortenMemory(random, problem);
  return problem;
}

std::optional<ListedMixes> ListMixes(const Problem& problem, std::int64_t limit,
                                     const Calibration& calibration) {
  return Lister(problem, calibration, limit).List();
}

std::optional<ListedMixes> ListReplicas(const Problem& problem, std::int64_t limit) {
  return ReplicaLister(problem, limit).List();
}

}  // namespace meshwright
