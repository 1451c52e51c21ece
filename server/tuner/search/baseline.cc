#include "server/tuner/search/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/interval.h"
#include "estimator/legality/legality.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/recipes.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

// A careful person leaves so much memory that the plan fits with this probability, if one can.
constexpr double kSureToFit = 0.95;

// A careful person splits a sequence only while so many of its tokens stay on each device.
constexpr int kLeastTokens = 4096;

struct HandMadeSizes {
  int tensor = 1;
  int pipeline = 1;
  int context = 1;
  int experts = 1;
};

ParallelPlan HandMade(const Problem& problem, const HandMadeSizes& sizes,
                      RecomputeGranularity recompute) {
  const auto& [tensor, pipeline, context, experts] = sizes;
  ParallelPlan plan;
  plan.recompute.granularity = recompute;
  plan.tensor_parallel = tensor;
  plan.sequence_parallel = tensor > 1;
  plan.pipeline_parallel = pipeline;
  plan.context_parallel = context;
  plan.data_parallel = DeviceCount(problem.cluster) / (tensor * pipeline * context);
  plan.context_parallel_kind = problem.profile.context_parallel_kinds.front();
  plan.expert_parallel = experts;
  plan.rank_order = problem.profile.rank_orders.front();
  plan.schedule = problem.profile.schedules.front();
  return plan;
}

bool IsLegal(const ParallelPlan& plan, const Problem& problem) {
  if (plan.pipeline_parallel > problem.model.layer_count) return false;
  return CheckPlan(plan, problem, "baseline").empty() &&
         BrokenRules(ToEstimatorProblem(problem), plan).empty() &&
         CautionsAbout(ToEstimatorProblem(problem), plan).empty();
}

// Returns the plan with the first of the usual settings that the framework can run: ZeRO 1, or else
// the stage that it shards with; tensor parallelism that splits the sequence and not the experts,
// or else otherwise. Returns nullopt if it can run none.
std::optional<ParallelPlan> Legal(ParallelPlan plan, const Problem& problem) {
  const int tensor = plan.tensor_parallel;
  for (const int zero : {1, 3, 2, 0}) {
    for (const bool splits_sequence : {tensor > 1, false}) {
      for (const int expert_tensor : {1, tensor}) {
        plan.zero_stage = zero;
        plan.sequence_parallel = splits_sequence;
        plan.expert_tensor_parallel = expert_tensor;
        if (IsLegal(plan, problem)) return plan;
      }
    }
  }
  return std::nullopt;
}

bool Fits(const ParallelPlan& plan, const Problem& problem, AnalyticModel& model, double share) {
  const Bytes capacity = problem.cluster.pools.front().memory_capacity;
  const MemoryCheck memory = model.CheckMemory(plan);
  return memory.fits && memory.reserved_memory <= Scale(capacity, share);
}

// Returns the plan that recomputes as few layers in each stage as fit into this share of the
// memory, where the framework can recompute some of them, or else all.
std::optional<ParallelPlan> WithFewestLayers(ParallelPlan plan, const Problem& problem,
                                             AnalyticModel& model, double share) {
  plan.recompute.granularity = RecomputeGranularity::kFull;
  if (!Fits(plan, problem, model, share)) return std::nullopt;
  const auto stages = static_cast<std::size_t>(plan.pipeline_parallel);
  const int largest = std::ranges::max(LayersPerStage(plan, problem.model, problem.profile));
  ParallelPlan fewer = plan;
  // Frameworks recompute as many layers in each chunk of a stage.
  for (int count = plan.virtual_pipeline; count < largest; count += plan.virtual_pipeline) {
    fewer.recompute.layer_counts.assign(stages, count);
    if (IsLegal(fewer, problem) && Fits(fewer, problem, model, share)) return fewer;
  }
  return plan;
}

// Returns the plan with as little recomputation as fits into this share of the memory.
std::optional<ParallelPlan> Fitting(ParallelPlan plan, const Problem& problem, AnalyticModel& model,
                                    double share) {
  for (const RecomputeGranularity recompute :
       {RecomputeGranularity::kNone, RecomputeGranularity::kSelective}) {
    plan.recompute.granularity = recompute;
    if (Fits(plan, problem, model, share)) return plan;
  }
  return WithFewestLayers(std::move(plan), problem, model, share);
}

std::optional<ParallelPlan> ByRecipe(const Recipe& recipe, const Problem& problem,
                                     AnalyticModel& model, double share) {
  const std::optional<ParallelPlan> plan = PlanOf(recipe, problem);
  if (!plan.has_value() || !IsLegal(*plan, problem)) return std::nullopt;
  if (!recipe.recomputes_layers) return Fitting(*plan, problem, model, share);
  return Fits(*plan, problem, model, share) ? plan : std::nullopt;
}

// Returns the source of a recipe, and what its plan does not take over from it.
std::string SourceOf(const Recipe& recipe, const ParallelPlan& plan) {
  std::string source(recipe.source);
  if (recipe.source.find(recipe.model) == std::string_view::npos)
    source += fmt::format(", {}", recipe.model);
  if (plan.context_parallel < recipe.context) {
    source += "; without its context parallelism";
  }
  const bool adds = plan.recompute.granularity != RecomputeGranularity::kNone;
  if (adds && !recipe.recomputes_layers) source += "; with recomputation, so that it fits";
  return source;
}

// The product of tensor and pipeline parallelism, and context parallelism.
struct ModelSplit {
  int product = 1;
  int context = 1;
};

// Returns the first plan with these sizes that is legal and fits, or nullopt.
std::optional<ParallelPlan> ByThumb(const Problem& problem, const ModelSplit& split,
                                    RecomputeGranularity recompute, AnalyticModel& model,
                                    double share) {
  const int node = problem.cluster.pools.front().devices_per_node;
  const std::vector<int> experts = problem.model.moe.has_value()
                                       ? Divisors(problem.model.moe->expert_count)
                                       : std::vector<int>{1};
  std::vector<int> tensor = Divisors(split.product);
  std::reverse(tensor.begin(), tensor.end());  // tensor parallelism inside the node first
  for (const int t : tensor) {
    if (node % t != 0) continue;
    for (const int e : experts) {
      const HandMadeSizes sizes = {
          .tensor = t, .pipeline = split.product / t, .context = split.context, .experts = e};
      auto plan = Legal(HandMade(problem, sizes, recompute), problem);
      if (plan.has_value() && Fits(*plan, problem, model, share)) return plan;
    }
  }
  return std::nullopt;
}

// Returns the plan that shards the weights over all devices, with recomputation if it must, where
// the framework does so by default; nullopt if it does not fit.
std::optional<ParallelPlan> ShardedBaseline(const Problem& problem, AnalyticModel& model,
                                            double share) {
  if (!problem.profile.shards_weights_first) return std::nullopt;
  for (const RecomputeGranularity recompute :
       {RecomputeGranularity::kNone, RecomputeGranularity::kFull}) {
    ParallelPlan plan = HandMade(problem, {}, recompute);
    plan.zero_stage = 3;
    if (IsLegal(plan, problem) && Fits(plan, problem, model, share)) return plan;
  }
  return std::nullopt;
}

// Adds where the baseline comes from.
void NoteSource(std::string value, std::string source, std::vector<AppliedDefault>& applied) {
  applied.push_back({.field = "baseline", .value = std::move(value), .source = std::move(source)});
}

}  // namespace

std::optional<ParallelPlan> RuleOfThumbBaseline(const Problem& problem, AnalyticModel& model,
                                                double share) {
  std::optional<ParallelPlan> sharded = ShardedBaseline(problem, model, share);
  if (sharded.has_value()) return sharded;
  const int devices = DeviceCount(problem.cluster);
  for (const int context : Divisors(devices)) {
    if (context > 1 && problem.workload.sequence_length / context < kLeastTokens) break;
    for (const RecomputeGranularity recompute :
         {RecomputeGranularity::kNone, RecomputeGranularity::kFull}) {
      for (const int product : Divisors(devices / context)) {
        auto plan =
            ByThumb(problem, {.product = product, .context = context}, recompute, model, share);
        if (plan.has_value()) return plan;
      }
    }
  }
  return std::nullopt;
}

std::optional<UsualPlan> DefaultBaseline(const Problem& problem, AnalyticModel& model,
                                         std::vector<AppliedDefault>& applied) {
  const Recipe* const recipe = NearestRecipe(problem);
  const double safe =
      LargestMedianRatio(kSureToFit, MemorySigma(model.problem(), model.calibration()));
  for (const double share : {safe, 1.0}) {
    std::optional<ParallelPlan> plan;
    if (recipe != nullptr) plan = ByRecipe(*recipe, problem, model, share);
    if (plan.has_value()) {
      NoteSource("recipe", SourceOf(*recipe, *plan), applied);
      return UsualPlan{.plan = *plan, .origin = BaselineOrigin::kRecipe};
    }
    plan = RuleOfThumbBaseline(problem, model, share);
    if (plan.has_value()) {
      const bool is_sharded = problem.profile.shards_weights_first && plan->zero_stage == 3;
      NoteSource("rule of thumb",
                 is_sharded ? "weights sharded over all devices before tensors are split"
                            : "the smallest tensor x pipeline parallelism that fits",
                 applied);
      return UsualPlan{.plan = *plan, .origin = BaselineOrigin::kRuleOfThumb};
    }
  }
  return std::nullopt;
}

std::optional<Baseline> BaselineOf(const std::optional<ResolvedPlan>& stated,
                                   const Problem& problem, AnalyticModel& model,
                                   std::vector<AppliedDefault>& applied) {
  if (stated.has_value()) {
    applied.insert(applied.end(), stated->applied_defaults.begin(), stated->applied_defaults.end());
    return Baseline{.ranked = RankPlan(stated->plan, problem, model)};
  }
  const std::optional<UsualPlan> usual = DefaultBaseline(problem, model, applied);
  if (!usual.has_value()) return std::nullopt;
  return Baseline{.ranked = RankPlan(usual->plan, problem, model), .origin = usual->origin};
}

void NoteBaseline(StudyResult& result) {
  if (!result.baseline.has_value()) {
    result.warnings.push_back(
        "there is no baseline: no plan of the kind that people choose by hand is legal and fits");
    return;
  }
  if (result.recommendation.has_value()) return;  // it says whether to keep the baseline
  const Estimate& baseline = result.baseline->estimate;
  if (baseline.fits && baseline.step_time <= result.plans.front().estimate.step_time) {
    result.warnings.push_back("keep the baseline: it is as fast as the best plan found");
  }
}

}  // namespace meshwright
