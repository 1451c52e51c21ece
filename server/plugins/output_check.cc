#include "server/plugins/output_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/run_limits.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

constexpr double kBreakdownTolerance = 0.01;
constexpr int kShardingWeights = 3;  // a ZeRO stage

// Counts three matrices per expert and layer, or two if they are not gated, so that none is counted
// that does not exist.
double ExpertParameters(const ModelSpec& model) {
  if (!model.moe.has_value()) return 0;
  int layers = 0;
  for (const LayerRun& run : RunsOf(model)) {
    if (run.kind.feed_forward == FeedForwardKind::kExperts) layers += run.count;
  }
  const double matrices = IsGated(model.mlp) ? 3 : 2;
  return matrices * layers * model.moe->expert_count * static_cast<double>(model.hidden_size) *
         model.moe->expert_ffn_hidden_size;
}

// Returns the fewest bytes per parameter: a plan could hold fp8 weights in one.
double BytesPerParameter(Precision precision) {
  switch (precision) {
    case Precision::kFp8:
      return 1;
    case Precision::kFp32:
      return 4;
    case Precision::kBf16:
    case Precision::kFp16:
      break;
  }
  return 2;
}

bool IsTime(Seconds time) { return std::isfinite(time.count()) && time.count() > 0; }

std::string WhyBadInterval(const PlanFigures& figures) {
  if (!figures.step_time_low.has_value() || !figures.step_time_high.has_value()) return "";
  const Seconds low = *figures.step_time_low;
  const Seconds high = *figures.step_time_high;
  // Written so that no NaN passes.
  if (IsTime(low) && IsTime(high) && low <= figures.step_time && figures.step_time <= high) {
    return "";
  }
  return fmt::format("its interval of {} s to {} s does not enclose its step time of {} s",
                     low.count(), high.count(), figures.step_time.count());
}

std::string WhyBadBreakdown(const PlanFigures& figures) {
  if (figures.breakdown.empty()) return "";
  double sum = 0;
  for (const auto& [name, time] : figures.breakdown) {
    if (!std::isfinite(time.count()) || time.count() < 0) {
      return fmt::format("its breakdown has {} with {} s", name, time.count());
    }
    sum += time.count();
  }
  const double step = figures.step_time.count();
  if (std::abs(sum - step) <= kBreakdownTolerance * step) return "";
  return fmt::format("its breakdown adds up to {} s, but its step time is {} s", sum, step);
}

}  // namespace

OutputCheck::OutputCheck(const Problem& problem) : least_step_(LeastStep(problem)) {
  const auto all = static_cast<double>(ParameterCount(problem.model, /*active_only=*/false));
  expert_parameters_ = std::min(all, ExpertParameters(problem.model));
  dense_parameters_ = all - expert_parameters_;
  bytes_per_parameter_ = BytesPerParameter(problem.workload.precision);
}

Bytes OutputCheck::LeastMemory(const ParallelPlan& plan) const {
  const double stages = std::max(1, StageCount(plan));
  const double shards = plan.zero_stage == kShardingWeights
                            ? static_cast<double>(std::max(1, plan.data_parallel)) *
                                  std::max(1, plan.context_parallel)
                            : 1;
  const double dense = dense_parameters_ / (stages * std::max(1, plan.tensor_parallel));
  const double experts =
      expert_parameters_ / (stages * std::max(1, plan.expert_parallel) *
                            static_cast<double>(std::max(1, plan.expert_tensor_parallel)));
  return RoundedBytes(bytes_per_parameter_ * (dense + experts) / shards);
}

std::string OutputCheck::WhyImpossible(const ParallelPlan& plan, const PlanFigures& figures) const {
  const Seconds step = figures.step_time;
  if (!IsTime(step)) return fmt::format("its step time is {} s", step.count());
  if (step < least_step_) {
    return fmt::format("its step time is {} s, but the nominal peak needs {} s", step.count(),
                       least_step_.count());
  }
  if (step > kLongestStep) {
    return fmt::format("its step time is {} s, more than a year", step.count());
  }
  if (figures.peak_memory.has_value() && *figures.peak_memory < LeastMemory(plan)) {
    return fmt::format("its peak memory is {} bytes, but the parameters of a device take {}",
                       figures.peak_memory->count, LeastMemory(plan).count);
  }
  const std::string interval = WhyBadInterval(figures);
  return interval.empty() ? WhyBadBreakdown(figures) : interval;
}

void OutputCheck::Apply(const ParallelPlan& plan, PlanFigures& figures) const {
  if (figures.verdict != PlanVerdict::kOk) return;
  const std::string why = WhyImpossible(plan, figures);
  if (why.empty()) return;
  figures = {.verdict = PlanVerdict::kError, .reason = "the model's answer cannot be true: " + why};
}

}  // namespace meshwright
