#include "server/tuner/checker.h"

#include <fmt/format.h>

#include <numeric>

#include "estimator/layer_program.h"
#include "estimator/pipeline.h"
#include "estimator/terms/matmul.h"

namespace meshwright {
namespace {

class PlanChecker {
 public:
  PlanChecker(const ParallelPlan& plan, const Problem& problem, std::string_view prefix)
      : plan_(plan), problem_(problem), prefix_(prefix) {}

  std::vector<FieldViolation> Check() {
    CheckPositive();
    if (!violations_.empty()) return violations_;
    if (plan_.stages.empty()) {
      CheckDevices();
    } else {
      CheckStages();
    }
    CheckHeads();
    CheckExperts();
    CheckPipeline();
    CheckSharding();
    CheckRecompute();
    return violations_;
  }

 private:
  template <typename... Args>
  void Add(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                           .description = fmt::format(format, std::forward<Args>(args)...)});
  }

  void AtLeastOne(std::string_view field, int value) {
    if (value < 1) Add(field, "{}; must be >= 1", value);
  }

  void CheckPositive() {
    AtLeastOne("tensor_parallel", plan_.tensor_parallel);
    AtLeastOne("pipeline_parallel", plan_.pipeline_parallel);
    AtLeastOne("virtual_pipeline", plan_.virtual_pipeline);
    AtLeastOne("data_parallel", plan_.data_parallel);
    AtLeastOne("context_parallel", plan_.context_parallel);
    AtLeastOne("expert_parallel", plan_.expert_parallel);
    AtLeastOne("expert_tensor_parallel", plan_.expert_tensor_parallel);
    AtLeastOne("micro_batch_size", plan_.micro_batch_size);
    if (plan_.zero_stage < 0 || plan_.zero_stage > 3) {
      Add("zero_stage", "{}; must be 0, 1, 2 or 3", plan_.zero_stage);
    }
    if (plan_.zero_group_size < 0) {
      Add("zero_group_size", "{}; must be >= 0", plan_.zero_group_size);
    }
    if (!(plan_.optimizer_offload_ratio >= 0 && plan_.optimizer_offload_ratio <= 1)) {
      Add("optimizer_offload_ratio", "{}; must be 0 .. 1", plan_.optimizer_offload_ratio);
    }
  }

  void CheckDevices() {
    if (problem_.cluster.pools.size() > 1) {
      Add("stages", "empty; a cluster of {} pools needs one entry for each pipeline stage",
          problem_.cluster.pools.size());
      return;
    }
    const std::int64_t used = std::int64_t{plan_.tensor_parallel} * plan_.pipeline_parallel *
                              plan_.context_parallel * plan_.data_parallel;
    const int devices = DeviceCount(problem_.cluster);
    if (used != devices) {
      Add("data_parallel",
          "{}; tensor x pipeline x context x data is {}, the cluster has {} devices",
          plan_.data_parallel, used, devices);
    }
    const std::int64_t per_round = std::int64_t{plan_.data_parallel} * plan_.micro_batch_size;
    if (problem_.workload.global_batch_size % per_round != 0) {
      Add("micro_batch_size",
          "{}; data_parallel x micro_batch_size = {} must divide the global batch of {}",
          plan_.micro_batch_size, per_round, problem_.workload.global_batch_size);
    }
  }

  void CheckStages() {
    const std::int64_t per_round =
        std::int64_t{plan_.stages.front().data_parallel} * plan_.stages.front().micro_batch_size;
    int layers = 0;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const StagePlan& stage = plan_.stages[i];
      const std::string at = fmt::format("stages[{}]", i);
      layers += stage.layer_count;
      if (stage.layer_count < 0) Add(at + ".layer_count", "{}; must be >= 0", stage.layer_count);
      if (stage.tensor_parallel < 1 || stage.data_parallel < 1 || stage.context_parallel < 1 ||
          stage.micro_batch_size < 1) {
        Add(at, "sizes must be >= 1");
        continue;
      }
      const NodePool* pool = nullptr;
      for (const NodePool& candidate : problem_.cluster.pools) {
        if (candidate.name == stage.pool) pool = &candidate;
      }
      if (pool == nullptr) {
        Add(at + ".pool", "\"{}\"; no pool of the cluster has this name", stage.pool);
        continue;
      }
      const std::int64_t used =
          std::int64_t{stage.tensor_parallel} * stage.data_parallel * stage.context_parallel;
      const std::int64_t has = std::int64_t{stage.node_count} * pool->devices_per_node;
      if (used != has) {
        Add(at + ".node_count", "{}; tensor x data x context is {}, the nodes have {} devices",
            stage.node_count, used, has);
      }
      if (std::int64_t{stage.data_parallel} * stage.micro_batch_size != per_round) {
        Add(at + ".micro_batch_size",
            "{}; data_parallel x micro_batch_size must be {} on every stage",
            stage.micro_batch_size, per_round);
      }
    }
    if (per_round < 1 || problem_.workload.global_batch_size % per_round != 0) {
      Add("stages[0].micro_batch_size",
          "{}; data_parallel x micro_batch_size must divide the global batch of {}",
          plan_.stages.front().micro_batch_size, problem_.workload.global_batch_size);
    }
    if (layers != problem_.model.layer_count) {
      Add("stages", "hold {} layers; the model has {}", layers, problem_.model.layer_count);
    }
    CheckNodes();
  }

  void CheckNodes() {
    for (const NodePool& pool : problem_.cluster.pools) {
      int nodes = 0;
      for (const StagePlan& stage : plan_.stages)
        nodes += stage.pool == pool.name ? stage.node_count : 0;
      if (nodes > pool.node_count) {
        Add("stages", "use {} nodes of pool \"{}\"; it has {}", nodes, pool.name, pool.node_count);
      }
    }
  }

  void CheckHeads() {
    const int heads = problem_.model.attention_head_count;
    const int t = plan_.tensor_parallel;
    if (heads % t != 0) Add("tensor_parallel", "{}; must divide the {} attention heads", t, heads);
    if (plan_.sequence_parallel && t == 1 && plan_.stages.empty()) {
      Add("sequence_parallel", "true; needs tensor_parallel > 1");
    }
    const int c = plan_.context_parallel;
    if (problem_.workload.sequence_length % c != 0) {
      Add("context_parallel", "{}; must divide the sequence of {}", c,
          problem_.workload.sequence_length);
    }
    if (c > 1 && plan_.context_parallel_kind == ContextParallelKind::kUlysses &&
        heads % (t * c) != 0) {
      Add("context_parallel", "{}; ulysses needs tensor x context to divide the {} attention heads",
          c, heads);
    }
    if (c > 1 && plan_.context_parallel_kind == ContextParallelKind::kHybrid) {
      Add("context_parallel_kind", "\"hybrid\"; modelled are ring, ulysses, all_gather");
    }
  }

  void CheckExperts() {
    const int e = plan_.expert_parallel;
    const int x = plan_.expert_tensor_parallel;
    const int experts = problem_.model.moe.has_value() ? problem_.model.moe->expert_count : 1;
    if (experts % e != 0) Add("expert_parallel", "{}; must divide the {} experts", e, experts);
    if (!plan_.stages.empty()) return;
    const int group = plan_.tensor_parallel * plan_.context_parallel * plan_.data_parallel;
    if (group % (e * x) != 0) {
      Add("expert_parallel",
          "{}; expert x expert_tensor = {} must divide tensor x context x data = {}", e, e * x,
          group);
    }
  }

  void CheckPipeline() {
    const int p = StageCount(plan_);
    if (!IsModelled(plan_.schedule)) {
      Add("schedule", "\"{}\"; modelled are gpipe, 1f1b, interleaved_1f1b", Word(plan_.schedule));
    }
    const bool interleaved = plan_.schedule == Schedule::kInterleaved1f1b;
    if (plan_.virtual_pipeline > 1 && (!interleaved || p == 1)) {
      Add("virtual_pipeline", "{}; needs schedule interleaved_1f1b and pipeline_parallel > 1",
          plan_.virtual_pipeline);
    }
    if (plan_.layers_per_stage.empty()) return;
    if (static_cast<int>(plan_.layers_per_stage.size()) != p) {
      Add("layers_per_stage", "{} entries; pipeline_parallel is {}", plan_.layers_per_stage.size(),
          p);
    }
    const int sum =
        std::accumulate(plan_.layers_per_stage.begin(), plan_.layers_per_stage.end(), 0);
    if (sum != problem_.model.layer_count) {
      Add("layers_per_stage", "add up to {}; the model has {} layers", sum,
          problem_.model.layer_count);
    }
    for (const int layers : plan_.layers_per_stage) {
      if (layers < 0) Add("layers_per_stage", "{}; must be >= 0", layers);
    }
  }

  void CheckSharding() {
    const int group = plan_.data_parallel * plan_.context_parallel;
    if (plan_.zero_group_size > 0 && group % plan_.zero_group_size != 0) {
      Add("zero_group_size", "{}; must divide data x context = {}", plan_.zero_group_size, group);
    }
  }

  void CheckRecompute() {
    const RecomputePlan& r = plan_.recompute;
    if (!r.layer_counts.empty() && r.granularity != RecomputeGranularity::kFull) {
      Add("recompute.layer_counts", "given; need granularity full");
    }
    if (!r.layer_counts.empty() && static_cast<int>(r.layer_counts.size()) != StageCount(plan_)) {
      Add("recompute.layer_counts", "{} entries; there are {} stages", r.layer_counts.size(),
          StageCount(plan_));
    }
    for (const int count : r.layer_counts) {
      if (count < 0) Add("recompute.layer_counts", "{}; must be >= 0", count);
    }
    for (const std::string& name : r.modules) {
      if (ModuleOf(name) == 0) {
        Add("recompute.modules", "\"{}\"; must be one of {}", name, AllowedModules());
      }
    }
  }

  const ParallelPlan& plan_;
  const Problem& problem_;
  std::string_view prefix_;
  std::vector<FieldViolation> violations_;
};

}  // namespace

std::vector<FieldViolation> CheckPlan(const ParallelPlan& plan, const Problem& problem,
                                      std::string_view prefix) {
  return PlanChecker(plan, problem, prefix).Check();
}

absl::Status CheckEstimate(const ParallelPlan& plan, const Estimate& estimate,
                           const Problem& problem) {
  // 16-bit weights of the whole model, spread over as many devices as could share them.
  const double devices = DeviceCount(problem.cluster);
  const double weights = 2.0 * static_cast<double>(ParameterCount(problem.model, false)) / devices;
  if (static_cast<double>(estimate.peak_memory.count) < weights) {
    return absl::InternalError(
        fmt::format("checker: {} claims a peak of {} bytes, its weights alone take {:.0f}",
                    MakePlanKey(plan).text, estimate.peak_memory.count, weights));
  }
  // Twice the active parameters a token forward, thrice that with backward, at the nominal peak.
  double peak = 0;
  for (const NodePool& pool : problem.cluster.pools) {
    peak += DeviceCount(pool) *
            NominalPeak(pool.chip, problem.workload.precision).value_or(FlopsPerSecond{0}).rate;
  }
  const ModelSpec& model = problem.model;
  const double embedding = static_cast<double>(model.vocab_size) * model.hidden_size;
  const double active = static_cast<double>(ParameterCount(model, true)) - 2 * embedding;
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  const double floor = 6 * active * tokens / peak;
  if (peak > 0 && estimate.step_time.count() < floor) {
    return absl::InternalError(
        fmt::format("checker: {} claims a step of {} s, the nominal peak allows {} s",
                    MakePlanKey(plan).text, estimate.step_time.count(), floor));
  }
  return absl::OkStatus();
}

}  // namespace meshwright
