#include "server/tuner/question/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "estimator/layer/layer_program.h"
#include "estimator/layer/layer_split.h"
#include "estimator/legality/legality.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/legality_rule.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan_value.h"
#include "search_space/spec/replica_groups.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

// Products of plan sizes; a single mistaken size may exceed 32 bits.
using Product = std::int64_t;

class PlanChecker {
 public:
  PlanChecker(const ParallelPlan& plan, const Problem& problem, std::string_view prefix)
      : plan_(plan), problem_(problem), prefix_(prefix) {}

  std::vector<FieldViolation> Check() {
    violations_ = Validate(StatedPlan(plan_), prefix_);
    // Stops here, so that nothing below divides by zero or overflows.
    if (!violations_.empty()) return violations_;
    if (!CheckPools()) return violations_;
    if (!plan_.replica_groups.empty()) return CheckGroups();
    if (plan_.stages.empty()) {
      CheckDevices();
      CheckDegrees("", plan_.tensor_parallel, plan_.context_parallel);
      CheckExperts("",
                   Product{plan_.tensor_parallel} * plan_.context_parallel * plan_.data_parallel);
    } else {
      CheckStages();
    }
    CheckPipeline();
    CheckRankOrder();
    CheckSharding();
    CheckRecompute();
    CheckActivationOffload();
    return violations_;
  }

 private:
  template <typename... Args>
  void Add(std::string_view field, fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                           .description = fmt::format(format, std::forward<Args>(args)...)});
  }

  // Checks which pools a plan uses. The problem of a plan that names its pool has that one only.
  bool CheckPools() {
    const std::size_t before = violations_.size();
    const auto& pools = problem_.cluster.pools;
    if (!plan_.pools.empty() && !plan_.stages.empty()) {
      Add("pools", "[{}]; must be absent beside stages, which name their pools",
          fmt::join(plan_.pools, ", "));
    } else if (plan_.pools.size() > 1) {
      Add("pools", "[{}]; a plan without stages uses one pool", fmt::join(plan_.pools, ", "));
    } else if (plan_.pools.size() == 1 &&
               std::ranges::find(pools, plan_.pools.front(), &NodePool::name) == pools.end()) {
      Add("pools", "[{}]; no pool of the cluster has this name", plan_.pools.front());
    } else if (!StagesNamePools(plan_) && pools.size() > 1) {
      Add("stages",
          "empty; a cluster of {} pools needs one entry for each pipeline stage, or the one pool "
          "of the plan in pools",
          pools.size());
    }
    return violations_.size() == before;
  }

  void CheckDevices() {
    // Only two factors fit in 64 bits (Validate), so the third and fourth are compared by division.
    const Product devices = DeviceCount(problem_.cluster);
    const Product shards = Product{plan_.tensor_parallel} * plan_.pipeline_parallel;
    const Product copies = Product{plan_.context_parallel} * plan_.data_parallel;
    if (devices % shards != 0 || devices / shards != copies) {
      Add("data_parallel",
          "{}; tensor x pipeline = {} times context x data = {} is not the cluster's {} devices",
          plan_.data_parallel, shards, copies, devices);
    }
    const Product per_round = Product{plan_.data_parallel} * plan_.micro_batch_size;
    if (problem_.workload.global_batch_size % per_round != 0) {
      Add("micro_batch_size",
          "{}; data_parallel x micro_batch_size = {} must divide the global batch of {}",
          plan_.micro_batch_size, per_round, problem_.workload.global_batch_size);
    }
  }

  void CheckStages() {
    const Product per_round =
        Product{plan_.stages.front().data_parallel} * plan_.stages.front().micro_batch_size;
    Product layers = 0;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const StagePlan& stage = plan_.stages[i];
      const std::string at = fmt::format("stages[{}].", i);
      layers += stage.layer_count;
      CheckStageDevices(at, stage);
      CheckDegrees(at, stage.tensor_parallel, stage.context_parallel);
      CheckExperts(at,
                   Product{stage.tensor_parallel} * stage.context_parallel * stage.data_parallel);
      if (Product{stage.data_parallel} * stage.micro_batch_size != per_round) {
        Add(at + "micro_batch_size",
            "{}; data_parallel x micro_batch_size must be {} on every stage",
            stage.micro_batch_size, per_round);
      }
    }
    if (problem_.workload.global_batch_size % per_round != 0) {
      Add("stages[0].micro_batch_size",
          "{}; data_parallel x micro_batch_size must divide the global batch of {}",
          plan_.stages.front().micro_batch_size, problem_.workload.global_batch_size);
    }
    if (layers != problem_.model.layer_count) {
      Add("stages", "hold {} layers; the model has {}", layers, problem_.model.layer_count);
    }
    Append(CheckPlaces(plan_, problem_.cluster, prefix_));
    CheckFieldsBesideStages();
  }

  // Checks what the flat fields say of stages that are listed one by one.
  void CheckFieldsBesideStages() {
    const std::size_t count = plan_.stages.size();
    if (plan_.pipeline_parallel != static_cast<int>(count)) {
      Add("pipeline_parallel", "{}; stages has {} entries", plan_.pipeline_parallel, count);
    }
    const std::vector<int> own = Layers();
    if (!plan_.layers_per_stage.empty() && plan_.layers_per_stage != own) {
      Add("layers_per_stage", "{}; stages hold {}", fmt::join(plan_.layers_per_stage, " "),
          fmt::join(own, " "));
    }
    // The same rows of one matrix lie on the same ranks of both stages (FlagScale, arguments.py;
    // other frameworks have equal degrees on all stages).
    const int first = plan_.stages.front().tensor_parallel;
    const int last = plan_.stages.back().tensor_parallel;
    if (problem_.model.tied_embeddings && first != last) {
      Add(fmt::format("stages[{}].tensor_parallel", count - 1),
          "{}; tied embeddings need that of the first stage, {}", last, first);
    }
  }

  void CheckStageDevices(const std::string& at, const StagePlan& stage) {
    const auto pool = std::find_if(problem_.cluster.pools.begin(), problem_.cluster.pools.end(),
                                   [&](const NodePool& p) { return p.name == stage.pool; });
    if (pool == problem_.cluster.pools.end()) {
      Add(at + "pool", "\"{}\"; no pool of the cluster has this name", stage.pool);
      return;
    }
    const Product used =
        Product{stage.tensor_parallel} * stage.context_parallel * stage.data_parallel;
    if (stage.device_count > 0 && used != stage.device_count) {
      Add(at + "device_count", "{}; tensor x data x context is {}", stage.device_count, used);
      return;
    }
    const Product has = Product{stage.node_count} * pool->devices_per_node;
    if (used != has && stage.device_count == 0) {
      Add(at + "node_count", "{}; tensor x data x context is {}, the nodes have {} devices",
          stage.node_count, used, has);
    }
  }

  std::vector<FieldViolation> CheckGroups() {
    for (std::size_t g = 0; g < plan_.replica_groups.size(); ++g) {
      const std::vector<StagePlan>& stages = plan_.replica_groups[g].stages;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const std::string at = fmt::format("replica_groups[{}].stages[{}].", g, i);
        CheckStageDevices(at, stages[i]);
        CheckDegrees(at, stages[i].tensor_parallel, stages[i].context_parallel);
        CheckRecomputePlan(at + "recompute", stages[i].recompute, {stages[i].layer_count});
      }
    }
    Append(CheckReplicaGroups(plan_, problem_.model, problem_.workload.global_batch_size, prefix_));
    Append(CheckPlaces(plan_, problem_.cluster, prefix_));
    return violations_;
  }

  void Append(const std::vector<FieldViolation>& more) {
    violations_.insert(violations_.end(), more.begin(), more.end());
  }

  // Checks the heads of scans and of layers that have heads of their own.
  void CheckLayerHeads(const std::string& at, int t) {
    const auto divides = [&](std::string_view what, int heads) {
      if (heads % t != 0) Add(at + "tensor_parallel", "{}; must divide the {} {}", t, heads, what);
    };
    const ModelSpec& model = problem_.model;
    if (model.state_space.has_value()) {
      divides("heads of the state space", model.state_space->head_count);
    }
    if (model.linear_attention.has_value()) {
      divides("key heads of linear attention", model.linear_attention->key_head_count);
      divides("value heads of linear attention", model.linear_attention->value_head_count);
    }
    for (const LayerRun& run : model.layers) {
      divides("attention heads of a layer", run.kind.attention_head_count);
      const int kv_heads = run.kind.kv_head_count;
      if (kv_heads > 0 && t % kv_heads != 0) divides("key-value heads of a layer", kv_heads);
    }
  }

  // Checks the heads and the sequence of one stage. `at` is "" or "stages[i].".
  void CheckDegrees(const std::string& at, int t, int c) {
    const ModelSpec& model = problem_.model;
    const int heads = model.attention_head_count;
    if (heads % t != 0) {
      Add(at + "tensor_parallel", "{}; must divide the {} attention heads", t, heads);
    } else if (model.kv_head_count % t != 0 && t % model.kv_head_count != 0) {
      Add(at + "tensor_parallel", "{}; must divide the {} key-value heads or be a multiple", t,
          model.kv_head_count);
    }
    CheckLayerHeads(at, t);
    if (at.empty() && plan_.sequence_parallel && t == 1) {
      Add("sequence_parallel", "true; needs tensor_parallel > 1");
    }
    if (problem_.workload.sequence_length % c != 0) {
      Add(at + "context_parallel", "{}; must divide the sequence of {}", c,
          problem_.workload.sequence_length);
    }
    if (c == 1) return;
    if (plan_.context_parallel_kind != ContextParallelKind::kUlysses || heads % t != 0) return;
    // If there are fewer key-value heads than ranks, they are copied. Latent attention has one for
    // every head.
    const int keys = model.mla.has_value() ? heads / t : std::max(1, model.kv_head_count / t);
    if (heads / t % c != 0 || keys % c != 0) {
      Add(at + "context_parallel",
          "{}; ulysses must divide the {} attention and {} key-value heads of a tensor-parallel "
          "rank",
          c, heads / t, keys);
    }
  }

  // Checks the expert sizes of one stage; `group` is its number of devices.
  void CheckExperts(const std::string& at, Product group) {
    const int e = plan_.expert_parallel;
    const Product both = Product{e} * plan_.expert_tensor_parallel;
    const int experts = problem_.model.moe.has_value() ? problem_.model.moe->expert_count : 1;
    if (experts % e != 0) Add("expert_parallel", "{}; must divide the {} experts", e, experts);
    if (group % both != 0) {
      Add(at.empty() ? "expert_parallel" : at + "tensor_parallel",
          "expert x expert_tensor = {} must divide tensor x context x data = {}", both, group);
    }
  }

  // Returns the layers of each stage: those of `stages`, the stated split or the framework's own.
  [[nodiscard]] std::vector<int> Layers() const {
    std::vector<int> layers;
    for (const StagePlan& stage : plan_.stages) layers.push_back(stage.layer_count);
    if (layers.empty()) layers = plan_.layers_per_stage;
    if (layers.empty()) {
      layers = SplitLayers(problem_.model, problem_.profile, plan_.pipeline_parallel);
    }
    return layers;
  }

  // Checks the micro-batches of a pipeline with p stages.
  void CheckMicroBatches(int p) {
    const Product sequences =
        plan_.stages.empty()
            ? Product{plan_.data_parallel} * plan_.micro_batch_size
            : Product{plan_.stages.front().data_parallel} * plan_.stages.front().micro_batch_size;
    const int batch = problem_.workload.global_batch_size;
    if (sequences < 1 || batch % sequences != 0) return;  // reported by another check
    const Product m = batch / sequences;
    if (plan_.schedule == Schedule::kInterleaved1f1b && m % p != 0) {
      Add("schedule",
          "interleaved_1f1b; runs groups of pipeline_parallel = {}, not {} micro-batches", p, m);
    }
    if (plan_.schedule == Schedule::kChimera && m > p) {
      Add("schedule",
          "chimera; is supported for at most pipeline_parallel = {} micro-batches, not {}", p, m);
    }
    if (LayoutOf(plan_.schedule, p, 1).directions() == 2 && (p % 2 != 0 || m % 2 != 0)) {
      Add("schedule", "{}; needs even numbers of stages and micro-batches, not {} and {}",
          Word(plan_.schedule), p, m);
    }
  }

  void CheckPipeline() {
    const int p = StageCount(plan_);
    if (!plan_.stages.empty() && !HasClosedForm(plan_.schedule)) {
      Add("schedule", "\"{}\"; stages of their own shape run gpipe, 1f1b or interleaved_1f1b",
          Word(plan_.schedule));
    }
    const bool interleaved = plan_.schedule == Schedule::kInterleaved1f1b;
    if (plan_.virtual_pipeline > 1 && (!interleaved || p == 1)) {
      Add("virtual_pipeline", "{}; needs schedule interleaved_1f1b and pipeline_parallel > 1",
          plan_.virtual_pipeline);
    }
    CheckMicroBatches(p);
    if (plan_.stages.empty() && !plan_.layers_per_stage.empty() &&
        static_cast<int>(plan_.layers_per_stage.size()) != p) {
      Add("layers_per_stage", "{} entries; pipeline_parallel is {}", plan_.layers_per_stage.size(),
          p);
      return;
    }
    const std::vector<int> layers = Layers();
    const Product sum = std::accumulate(layers.begin(), layers.end(), Product{0});
    if (plan_.stages.empty() && sum != problem_.model.layer_count) {
      Add("layers_per_stage", "add up to {}; the model has {} layers", sum,
          problem_.model.layer_count);
    }
    const bool has_odd = std::any_of(layers.begin(), layers.end(),
                                     [](int count) { return count < 2 || count % 2 != 0; });
    if (LayoutOf(plan_.schedule, p, 1).IsFolded() && p > 1 && has_odd) {
      Add("schedule",
          "{}; Meshwright gives each stage two equal parts of it, which needs an even number of "
          "layers on every stage",
          Word(plan_.schedule));
    }
    const int most = *std::max_element(layers.begin(), layers.end());
    if (plan_.virtual_pipeline > std::max(1, most)) {
      Add("virtual_pipeline", "{}; the largest stage has {} layers", plan_.virtual_pipeline, most);
    }
  }

  void CheckRankOrder() {
    if (!plan_.stages.empty() && plan_.rank_order != RankOrder::kTpCpEpDpPp) {
      Add("rank_order", "{}; stages of their own shape are whole nodes and run {}",
          Word(plan_.rank_order), Word(RankOrder::kTpCpEpDpPp));
    }
  }

  void CheckSharding() {
    if (plan_.whole_weights_ratio > 0 && plan_.zero_stage < 3) {
      Add("whole_weights_ratio", "{} with zero_stage {}; needs zero_stage 3",
          plan_.whole_weights_ratio, plan_.zero_stage);
    }
    if (plan_.zero_group_size == 0) return;
    if (plan_.stages.empty()) {
      const Product group = Product{plan_.data_parallel} * plan_.context_parallel;
      if (group % plan_.zero_group_size != 0) {
        Add("zero_group_size", "{}; must divide data x context = {}", plan_.zero_group_size, group);
      }
      return;
    }
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const StagePlan& stage = plan_.stages[i];
      const Product group = Product{stage.data_parallel} * stage.context_parallel;
      if (group % plan_.zero_group_size == 0) continue;
      Add("zero_group_size", "{}; must divide data x context = {} of stages[{}]",
          plan_.zero_group_size, group, i);
      return;
    }
  }

  void CheckRecompute() {
    const std::vector<int> layers = Layers();
    CheckRecomputePlan("recompute", plan_.recompute, layers);
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      CheckRecomputePlan(fmt::format("stages[{}].recompute", i), plan_.stages[i].recompute,
                         {plan_.stages[i].layer_count});
    }
  }

  // Offloaded activations are not recomputed (Megatron-Core, transformer_config.py: "CPU offloading
  // does not work when activation recomputation is enabled").
  void CheckActivationOffload() {
    const double ratio = plan_.activation_offload_ratio;
    if (ratio == 0) return;
    const auto recomputes = [](const RecomputePlan& r) {
      return r.granularity != RecomputeGranularity::kNone;
    };
    const bool stage_recomputes = std::ranges::any_of(
        plan_.stages, [&](const StagePlan& stage) { return recomputes(stage.recompute); });
    if (recomputes(plan_.recompute) || stage_recomputes) {
      Add("activation_offload_ratio", "{}; needs recompute.granularity none", ratio);
    }
    if (problem_.profile.activation_offload_needs_one_stage && StageCount(plan_) > 1) {
      Add("activation_offload_ratio", "{} with {} pipeline stages; framework profile {} needs one",
          ratio, StageCount(plan_), problem_.profile.name);
    }
  }

  void CheckRecomputePlan(const std::string& at, const RecomputePlan& r,
                          const std::vector<int>& layers) {
    for (const std::string& name : r.modules) {
      if (ModuleOf(name) == 0) {
        Add(at + ".modules", "\"{}\"; must be one of {}", name, AllowedModules());
      }
    }
    CheckSelectiveCounts(at, r, layers);
    if (r.layer_counts.empty()) return;
    if (r.granularity != RecomputeGranularity::kFull) {
      Add(at + ".layer_counts", "stated; need granularity full");
    }
    if (r.layer_counts.size() != layers.size()) {
      Add(at + ".layer_counts", "{} entries; there are {} stages", r.layer_counts.size(),
          layers.size());
      return;
    }
    const int most = *std::max_element(layers.begin(), layers.end());
    for (const int count : r.layer_counts) {
      // Usually one count is given for all stages; a smaller stage recomputes all its layers.
      if (count > most) {
        Add(at + ".layer_counts", "{}; the largest stage has {} layers", count, most);
      }
    }
  }

  void CheckSelectiveCounts(const std::string& at, const RecomputePlan& r,
                            const std::vector<int>& layers) {
    const std::vector<int>& counts = r.selective_layer_counts;
    if (counts.empty()) return;
    if (r.granularity != RecomputeGranularity::kFull || r.layer_counts.empty()) {
      Add(at + ".selective_layer_counts", "stated; need granularity full with layer_counts");
      return;
    }
    if (counts.size() != r.layer_counts.size()) {
      Add(at + ".selective_layer_counts", "{} entries; layer_counts has {}", counts.size(),
          r.layer_counts.size());
      return;
    }
    const int most = *std::max_element(layers.begin(), layers.end());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] + r.layer_counts[i] > most) {
        Add(at + ".selective_layer_counts", "{} after {} of layer_counts; the largest stage has {}",
            counts[i], r.layer_counts[i], most);
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

std::vector<FieldViolation> CheckLegality(const ParallelPlan& plan, const Problem& problem,
                                          std::string_view prefix) {
  std::string framework = problem.profile.name;
  if (!problem.workload.framework_version.empty()) {
    framework += " " + problem.workload.framework_version;
  }
  std::vector<FieldViolation> violations;
  for (const LegalityRule* rule : BrokenRules(ToEstimatorProblem(problem), plan)) {
    violations.push_back(
        {.field = fmt::format("{}.{}", prefix, rule->field),
         .description = fmt::format("{}; {} refuses it: {} ({})", PlanValue(plan, rule->field),
                                    framework, rule->sentence, rule->source)});
  }
  return violations;
}

Seconds LeastStep(const Problem& problem) {
  const auto& [model, workload] = std::tie(problem.model, problem.workload);
  double peak = 0;
  for (const NodePool& pool : problem.cluster.pools) {
    peak += DeviceCount(pool) *
            NominalPeak(pool.chip, workload.precision).value_or(FlopsPerSecond{0}).rate;
  }
  const double embedding = static_cast<double>(model.vocab_size) * model.hidden_size;
  const double active = static_cast<double>(ParameterCount(model, true)) - 2 * embedding;
  const double tokens = static_cast<double>(workload.global_batch_size) * workload.sequence_length;
  return peak > 0 ? Seconds(6 * active * tokens / peak) : Seconds(0);
}

absl::Status CheckEstimate(const ParallelPlan& plan, const Estimate& estimate,
                           const Problem& problem) {
  if (!estimate.fits || estimate.reserved_memory > estimate.memory_capacity) {
    return absl::InternalError(fmt::format("checker: {} needs {} bytes of {}",
                                           MakePlanKey(plan).text, estimate.reserved_memory.count,
                                           estimate.memory_capacity.count));
  }
  // All devices can at most share the 16-bit weights of the model.
  const double weights = 2.0 * static_cast<double>(ParameterCount(problem.model, false)) /
                         DeviceCount(problem.cluster);
  if (static_cast<double>(estimate.peak_memory.count) < weights) {
    return absl::InternalError(
        fmt::format("checker: {} claims a peak of {} bytes, but its weights take {:.0f}",
                    MakePlanKey(plan).text, estimate.peak_memory.count, weights));
  }
  if (const Seconds least = LeastStep(problem); estimate.step_time < least) {
    return absl::InternalError(
        fmt::format("checker: {} claims a step of {} s, but the nominal peak needs {} s",
                    MakePlanKey(plan).text, estimate.step_time.count(), least.count()));
  }
  return absl::OkStatus();
}

}  // namespace meshwright
