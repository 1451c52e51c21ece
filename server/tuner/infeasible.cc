#include "server/tuner/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/layer_split.h"
#include "server/tuner/calibrate.h"

namespace meshwright {
namespace {

constexpr int kMostGrowth = 64;  // times the nodes, or the sequence divided

bool SomethingFits(const Problem& problem, const SearchOptions& options) {
  AnalyticModel model(ViewOf(problem));
  SearchOptions quick = {.plan_count = 1,
                         .disabled_rules = options.disabled_rules,
                         .stop = options.stop,
                         .first_fit_is_enough = true};
  return !SearchExhaustively(SpaceOf(problem), model, quick).best.empty();
}

std::optional<std::string> MoreNodes(const Problem& problem, const SearchOptions& options) {
  Problem larger = problem;
  for (int factor = 2; factor <= kMostGrowth; factor *= 2) {
    larger.cluster.pools.front().node_count = problem.cluster.pools.front().node_count * factor;
    if (SomethingFits(larger, options)) {
      return fmt::format("use {} nodes instead of {}", larger.cluster.pools.front().node_count,
                         problem.cluster.pools.front().node_count);
    }
  }
  return std::nullopt;
}

std::optional<std::string> ShorterSequence(const Problem& problem, const SearchOptions& options) {
  Problem shorter = problem;
  for (int factor = 2; factor <= kMostGrowth; factor *= 2) {
    if (problem.workload.sequence_length % factor != 0) break;
    shorter.workload.sequence_length = problem.workload.sequence_length / factor;
    if (SomethingFits(shorter, options)) {
      return fmt::format("train with sequences of {} tokens instead of {}",
                         shorter.workload.sequence_length, problem.workload.sequence_length);
    }
  }
  return std::nullopt;
}

std::optional<std::string> SmallerStates(const Problem& problem, const SearchOptions& options) {
  Problem lighter = problem;
  if (problem.workload.gradient_dtype == GradientDtype::kFp32) {
    lighter.workload.gradient_dtype = GradientDtype::kBf16;
    if (SomethingFits(lighter, options)) return "accumulate gradients in bf16 instead of fp32";
  }
  if (problem.workload.optimizer == Optimizer::kAdam) {
    lighter.workload.optimizer = Optimizer::kAdam8bit;
    if (SomethingFits(lighter, options)) {
      return lighter.workload.gradient_dtype == problem.workload.gradient_dtype
                 ? "use adam8bit instead of adam"
                 : "use adam8bit and bf16 gradients";
    }
  }
  return std::nullopt;
}

}  // namespace

SearchSpace SpaceOf(const Problem& problem) {
  return SearchSpace(problem.model, DeviceCount(problem.cluster),
                     problem.workload.global_batch_size, problem.profile.context_parallel_kind);
}

Infeasible ExplainInfeasible(const Problem& problem, const SearchFound& found,
                             const SearchOptions& options) {
  Infeasible answer;
  answer.search = found.summary;
  if (!found.nearest.has_value()) {
    answer.suggestions.push_back(
        "no legal plan is left by the rules; see pruned_count_by_rule, or switch a rule off");
    return answer;
  }
  AnalyticModel model(ViewOf(problem));
  RankedPlan nearest;
  nearest.plan = found.nearest->plan;
  nearest.plan.layers_per_stage =
      SplitLayers(problem.model, problem.profile, nearest.plan.pipeline_parallel);
  nearest.estimate = model.Full(nearest.plan);
  const MemoryBreakdown& lines = nearest.estimate.memory_breakdown;
  const auto most = std::max_element(lines.begin(), lines.end());
  answer.binding_kind = static_cast<MemoryKind>(std::distance(lines.begin(), most));
  answer.missing = nearest.estimate.reserved_memory - nearest.estimate.memory_capacity;
  // Rounded up, so that the memory that is suggested is enough.
  const double needed = std::ceil(nearest.estimate.reserved_memory / GiB(0.1)) / 10;
  answer.suggestions.push_back(
      fmt::format("use devices with at least {:.1f} GiB instead of {:.1f} GiB", needed,
                  nearest.estimate.memory_capacity / GiB(1)));
  for (const auto& change : {MoreNodes(problem, options), SmallerStates(problem, options),
                             ShorterSequence(problem, options)}) {
    if (change.has_value()) answer.suggestions.push_back(*change);
  }
  answer.nearest = std::move(nearest);
  return answer;
}

}  // namespace meshwright
