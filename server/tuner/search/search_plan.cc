#include "server/tuner/search/search_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/legality/legality.h"
#include "estimator/model/forward_flops.h"
#include "estimator/problem/legality_rule.h"
#include "estimator/terms/matmul.h"
#include "pruner/rules/history.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/strategies.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kProgressEvery(100);

Bytes ActivationsOf(const StageMemory& stage) {
  return stage.breakdown[static_cast<std::size_t>(MemoryKind::kActivations)];
}

// Returns the bytes that leave the device which offloads the most activations.
Bytes LargestOffload(ParallelPlan plan, const Estimate& estimate, AnalyticModel& model) {
  plan.activation_offload_ratio = 0;
  const Estimate plain = model.Full(plan);
  Bytes largest = {};
  for (std::size_t i = 0; i < plain.stage_memory.size(); ++i) {
    const Bytes kept = ActivationsOf(estimate.stage_memory[i]);
    largest = std::max(largest, ActivationsOf(plain.stage_memory[i]) - kept);
  }
  return largest;
}

int LargestStage(const ParallelPlan& plan) {
  int largest = 0;
  for (const int layers : plan.layers_per_stage) largest = std::max(largest, layers);
  for (const StagePlan& stage : plan.stages) largest = std::max(largest, stage.layer_count);
  for (const ReplicaGroup& group : plan.replica_groups) {
    for (const StagePlan& stage : group.stages) largest = std::max(largest, stage.layer_count);
  }
  return largest;
}

// Adds the warnings of one estimate to it.
void AddWarnings(const ParallelPlan& plan, AnalyticModel& model, Estimate& estimate) {
  if (!plan.replica_groups.empty()) {
    estimate.warnings.emplace_back(
        "no measured run backs estimates of replicas that differ; the wider interval does not "
        "cover that published runs took five to seven times as long "
        "(docs/mixed-clusters/plans.md)");
  }
  if (plan.optimizer_offload_ratio > 0) {
    estimate.warnings.emplace_back(
        "optimizer offload is timed by the rate and the link of the host (cluster.pools[].host); "
        "unstated values are assumed");
  }
  if (plan.activation_offload_ratio > 0) {
    const Bytes offloaded = LargestOffload(plan, estimate, model);
    estimate.warnings.push_back(
        offloaded.count == 0
            ? "activation_offload_ratio is too small for one layer: nothing is offloaded"
            : fmt::format("offload of activations puts {:.1f} GB of each device into host memory; "
                          "the size of that memory is not known, and the host link is assumed and "
                          "not shared with other devices",
                          static_cast<double>(offloaded.count) / 1e9));
  }
  if (plan.whole_weights_ratio > 0) {
    const bool is_any = WholeLayers(plan.whole_weights_ratio, LargestStage(plan)) > 0;
    estimate.warnings.emplace_back(
        is_any ? "whole_weights_ratio: framework profiles do not say which framework can keep the "
                 "weights of some layers whole; PyTorch FSDP2 can, layer by layer"
               : "whole_weights_ratio is too small for one layer: all weights are sharded");
  }
  for (const LegalityRule* rule : CautionsAbout(model.problem(), plan)) {
    estimate.warnings.push_back(
        fmt::format("{}: {} ({})", rule->field, rule->sentence, rule->source));
  }
  const auto ruled_out = WhyRuledOut(plan, model.calibration(), model.problem());
  if (ruled_out.has_value()) estimate.warnings.push_back(*ruled_out);
  if (estimate.reserved_memory / estimate.memory_capacity > 0.9 && estimate.fits) {
    estimate.warnings.push_back("within 10% of the device's memory: the step may be slower");
  }
}

// Returns the dimensions that leave no plan even without the other restrictions, and the degrees
// that they can have.
std::string EmptyAlone(const std::vector<DimensionRequest>& requests, const Problem& open) {
  // Their values at the root of the space are all of their values.
  constexpr std::array kDegrees = {Dimension::kTensorParallel, Dimension::kContextParallel,
                                   Dimension::kPipelineParallel, Dimension::kExpertParallel};
  const SearchSpace space = SpaceOf(open);
  std::string text;
  for (const DimensionRequest& request : requests) {
    Problem narrowed = open;
    const bool is_wrong = !ApplyDimensions({request}, "", narrowed.space).empty();
    if (is_wrong || SpaceOf(narrowed).Count() > 0) continue;
    text += fmt::format("; {} leaves none even alone", request.name);
    ForEachRow(kDimensions, [&](const auto& row) {
      if (row.name != request.name || std::ranges::count(kDegrees, row.dimension) == 0) return;
      text += fmt::format(", and can be {}",
                          fmt::join(space.Values(row.dimension, space.Root()), ", "));
    });
  }
  return text;
}

}  // namespace

absl::Status RequireExhaustive(const StudyRequest& request, std::string_view what) {
  if (request.strategy == kExhaustive) return absl::OkStatus();
  return InvalidFields(
      {{.field = "strategy",
        .description = fmt::format("{}; {} compares plans that are proven best, so it must be {}",
                                   request.strategy, what, kExhaustive)}});
}

absl::Status RefuseOpenSettings(const StudyRequest& request) {
  std::vector<FieldViolation> violations;
  for (std::size_t i = 0; i < request.dimensions.size(); ++i) {
    const std::string& name = request.dimensions[i].name;
    const auto row = std::ranges::find(kWorkloadSettings, name, &WorkloadSettingRow::field);
    if (row == kWorkloadSettings.end()) continue;
    violations.push_back({.field = fmt::format("dimensions[{}]", i),
                          .description = fmt::format("{}: this question takes only one value; "
                                                     "state it in the workload",
                                                     name)});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::Status NarrowSpace(const StudyRequest& request, Problem& problem) {
  RETURN_IF_ERROR(RefuseOpenSettings(request));
  const Problem open = problem;
  const auto violations = ApplyDimensions(request.dimensions, "dimensions", problem.space);
  if (!violations.empty()) return InvalidFields(violations);
  if (problem.space.chosen.contains(Dimension::kOptimizerOffload)) {
    problem.closed_offload_percents.clear();
  }
  const auto warn = [&](std::string_view what, const auto& asked, const auto& listed) {
    for (const auto& word : asked) {
      if (std::ranges::find(listed, word) != listed.end()) continue;
      problem.warnings.push_back(
          fmt::format("{} {} was asked for; framework profile {} does not support it", what,
                      Word(word), problem.profile.name));
    }
  };
  warn("schedule", problem.space.schedules, problem.profile.schedules);
  warn("context_parallel_kind", problem.space.context_parallel_kinds,
       problem.profile.context_parallel_kinds);
  warn("rank_order", problem.space.rank_orders, problem.profile.rank_orders);
  if (problem.space.mixes_recompute && !problem.profile.mixes_recompute) {
    problem.warnings.push_back(
        fmt::format("recompute mixed was asked for; framework profile {} does not support it",
                    problem.profile.name));
  }
  if (problem.cluster.pools.size() == 1 && SpaceOf(problem).Count() == 0) {
    return InvalidFields({{.field = "dimensions",
                           .description = "too narrow; must leave a plan in the space" +
                                          EmptyAlone(request.dimensions, open)}});
  }
  return absl::OkStatus();
}

Seconds FloorOfStep(const Problem& problem, const Calibration& calibration) {
  double rate = 0;
  for (const NodePool& pool : problem.cluster.pools) {
    const MatmulTimes products(pool.chip, RatesOf(pool, problem.workload));
    const ChipLesson* lesson = LessonOf(calibration, pool.chip.id);
    const double ratio = lesson == nullptr ? 1 : lesson->time_ratio;
    rate += DeviceCount(pool) / (ratio * products.Least({1}).count());
  }
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  return LeastTimeRatio(calibration) *
         Seconds(3 * ForwardFlopsPerToken(ToEstimatorProblem(problem)) * tokens / rate);
}

ParallelPlan WithStatedSplit(ParallelPlan plan, const Problem& problem) {
  return WithStatedSplit(std::move(plan), problem.model, problem.profile);
}

RankedPlan RankPlan(ParallelPlan plan, const Problem& problem, AnalyticModel& model) {
  plan = WithStatedSplit(std::move(plan), problem);
  RankedPlan ranked = {.plan = plan, .estimate = model.Full(plan)};
  AddWarnings(ranked.plan, model, ranked.estimate);
  return ranked;
}

absl::StatusOr<PreparedQuestion> PrepareSearch(ResolvedStudy study, const Knowledge& knowledge,
                                               const HistorySource& source) {
  const StudyRequest& request = study.request;
  if (request.trials.has_value()) {
    return InvalidFields({{.field = "trials",
                           .description = "stated; this question is answered at once and runs no "
                                          "trials: create a study instead"}});
  }
  RETURN_IF_ERROR(NarrowSpace(request, study.problem));
  return Prepare(std::move(study), knowledge, source);
}

SearchOptions SearchOptionsOf(const StudyRequest& request, const StudyControl& control,
                              std::chrono::steady_clock::time_point start) {
  SearchOptions options;
  options.plan_count = static_cast<std::size_t>(std::max(1, request.plan_count));
  options.disabled_rules = request.disabled_rules;
  options.stop = [&control, deadline = request.deadline, start]() -> std::optional<StopCause> {
    if (control.cancel.stop_requested()) return StopCause::kCancelled;
    if (deadline.has_value() && Clock::now() - start >= *deadline) return StopCause::kDeadline;
    return std::nullopt;
  };
  if (control.on_progress) {
    options.on_progress = [&control, last = start](const Progress& progress) mutable {
      if (Clock::now() - last < kProgressEvery) return;
      last = Clock::now();
      control.on_progress(progress);
    };
  }
  return options;
}

}  // namespace meshwright
