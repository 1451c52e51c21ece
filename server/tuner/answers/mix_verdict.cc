#include "server/tuner/answers/mix_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>

#include "estimator/model/stage.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/pool_links.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

// A stage waits for messages if they take more than this share of its time.
constexpr double kMuchWaiting = 0.25;

// A boundary between two pools.
struct Boundary {
  double share = 0;          // of the step, in which a stage waits for its messages
  BytesPerSecond rate = {};  // of its link, a node's
};

// The stage that limits a mix, and what its boundaries cost.
struct Limit {
  MixBottleneck stage = {};
  int layers = 0;
  int like_count = 0;      // neighbouring stages that are equal to it
  Boundary boundary = {};  // the slowest between pools
};

Boundary SlowestBoundary(const StageRuns& stages, const PlanTime& time,
                         const ClusterSpec& cluster) {
  Boundary slowest;
  for (int i = 0; i + 1 < stages.stage_count(); ++i) {
    const NodePool& from = *stages.StageAt(i).devices->pool;
    const NodePool& to = *stages.StageAt(i + 1).devices->pool;
    if (&from == &to) continue;
    const Seconds each = time.hops.empty() ? 2 * time.shape.point_to_point
                                           : Sum(time.hops[static_cast<std::size_t>(i)]);
    const double share = time.shape.micro_batches * each / time.step;
    if (share <= slowest.share) continue;
    slowest = {.share = share, .rate = LinkBetween(from, to, cluster).link.bandwidth_per_node};
  }
  return slowest;
}

Limit LimitOf(const ParallelPlan& plan, AnalyticModel& model) {
  const StageRuns stages = model.StagesOf(plan);
  const PlanTime time = model.time().Of(stages, PipelineModel::kSimulated, model.caches());
  const auto run = std::ranges::find_if(
      stages.runs(), [&](const StageRun& each) { return &each.stage == time.slowest.stage; });
  const double waits = 1 - time.slowest.wall / time.slowest.occupied;
  const bool recomputes = run->stage.recomputed_layers + run->stage.selective_layers > 0;
  std::string cause = recomputes ? "memory" : "compute";
  if (waits > kMuchWaiting) cause = "messages";
  return {.stage = {.pool = plan.stages[static_cast<std::size_t>(run->first)].pool,
                    .stage = run->first,
                    .cause = cause},
          .layers = run->stage.layer_count,
          .like_count = run->count,
          .boundary = SlowestBoundary(stages, time, model.problem().cluster)};
}

const Contender* FastestContender(const std::vector<Contender>& contenders) {
  const auto fastest = std::ranges::min_element(
      contenders, {}, [](const Contender& each) { return each.estimate.step_time; });
  return fastest == contenders.end() ? nullptr : &*fastest;
}

std::string BoundaryWords(const Boundary& boundary) {
  return fmt::format("the boundary of {:.3g} GB/s a node takes {:.1f} % of the step",
                     boundary.rate.rate / 1e9, 100 * boundary.share);
}

std::string WhyMix(const Limit& limit) {
  const std::string stages =
      limit.like_count == 1 ? fmt::format("a stage of {} layers", limit.layers)
                            : fmt::format("{} stages of {} layers", limit.like_count, limit.layers);
  const std::string memory =
      limit.stage.cause == "memory" ? ", which recompute because memory is short" : "";
  return fmt::format("Pool \"{}\" limits the mix with {}{}; {}", limit.stage.pool, stages, memory,
                     BoundaryWords(limit.boundary));
}

std::string WhyNot(const Contender& alone, const Contender* mix, const Heterogeneous& answer,
                   double margin, const std::string& boundary) {
  const std::string best = fmt::format("\"{}\" alone has {:.0f} tokens/s", alone.pools.front(),
                                       answer.lower_bound_tokens_per_second);
  if (mix == nullptr) return best + "; no plan that mixes pools fits";
  const double gain = answer.gain_ratio - 1;
  if (gain <= 0) {
    return fmt::format("{}; the best mix would be {:.1f} % slower: {}", best, -100 * gain,
                       boundary);
  }
  if (gain <= margin) {
    return fmt::format("{}; the mix would bring {:.1f} %, below the margin of {:.3g} %: {}", best,
                       100 * gain, 100 * margin, boundary);
  }
  return fmt::format(
      "{}; the mix would bring {:.1f} % by the model, but it is not sure enough to exceed the "
      "margin of {:.3g} %: with a probability of 90 % it brings more than {:.1f} %",
      best, 100 * gain, 100 * margin, 100 * (answer.gain_low_ratio.value_or(1) - 1));
}

void AddGenerations(const MixContest& contest, const Contender* mix, const Problem& problem,
                    Heterogeneous& answer) {
  const auto add = [&](std::string name, const Contender& each) {
    MixGeneration& generation = answer.generations.emplace_back();
    generation.name = std::move(name);
    generation.tokens_per_second = TokensPerSecond(each.estimate, problem);
    if (answer.upper_bound_tokens_per_second > 0) {
      generation.efficiency_ratio =
          generation.tokens_per_second / answer.upper_bound_tokens_per_second;
    }
  };
  if (contest.equal.has_value()) add("hetero_pp", *contest.equal);
  if (mix != nullptr) add("hetero_tp", *mix);
}

void AddSets(const MixContest& contest, const Problem& problem, Heterogeneous& answer) {
  for (const std::vector<Contender>* sets : {&contest.alone, &contest.mixes}) {
    for (const Contender& each : *sets) {
      answer.best_by_pool_set.push_back(
          {.pools = each.pools,
           .tokens_per_second = TokensPerSecond(each.estimate, problem),
           .plan = each.plan});
    }
  }
  std::ranges::stable_sort(answer.best_by_pool_set, std::ranges::greater(),
                           &PoolSetPlan::tokens_per_second);
}

}  // namespace

std::vector<std::string> PoolsOf(const ParallelPlan& plan) {
  if (!StagesNamePools(plan)) return plan.pools;
  std::vector<std::string> pools;
  for (const StagePlan& stage : plan.stages) {
    if (pools.empty() || pools.back() != stage.pool) pools.push_back(stage.pool);
  }
  return pools;
}

double TokensPerSecond(const Estimate& estimate, const Problem& problem) {
  const Workload& workload = problem.workload;
  return static_cast<double>(workload.global_batch_size) * workload.sequence_length /
         estimate.step_time.count();
}

Heterogeneous Compare(const MixContest& contest, double margin, const Problem& problem,
                      AnalyticModel& model) {
  Heterogeneous answer;
  for (const Contender& each : contest.alone) {
    const double tokens = TokensPerSecond(each.estimate, problem);
    answer.tokens_per_second_by_pool[each.pools.front()] = tokens;
    answer.upper_bound_tokens_per_second += tokens;
    answer.lower_bound_tokens_per_second = std::max(answer.lower_bound_tokens_per_second, tokens);
  }
  const Contender* const alone = FastestContender(contest.alone);
  const Contender* const mix = FastestContender(contest.mixes);
  AddSets(contest, problem, answer);
  AddGenerations(contest, mix, problem, answer);
  std::string boundary;
  if (mix != nullptr) {
    const Limit limit = LimitOf(mix->plan, model);
    answer.bottleneck = limit.stage;
    boundary = BoundaryWords(limit.boundary);
    answer.reason = WhyMix(limit);
  }
  if (alone == nullptr) {
    answer.verdict = MixVerdict::kMix;
    answer.reason = "No pool holds the job alone. " + answer.reason;
    return answer;
  }
  if (mix != nullptr) {
    answer.efficiency_ratio =
        TokensPerSecond(mix->estimate, problem) / answer.upper_bound_tokens_per_second;
    answer.gain_ratio = alone->estimate.step_time / mix->estimate.step_time;
    // Chips of both share the framework, and the mix has chips of the pool: the errors that the two
    // plans have in common cancel.
    TimeUncertainty of_alone = alone->uncertainty;
    of_alone.foundation = mix->uncertainty.foundation;
    answer.gain_low_ratio = StepTimeRatio(mix->estimate.step_time, mix->uncertainty,
                                          alone->estimate.step_time, of_alone)
                                .low;
    const double sure = FasterProbability((1 + margin) * mix->estimate.step_time, mix->uncertainty,
                                          alone->estimate.step_time, of_alone);
    if (answer.gain_ratio > 1 + margin && sure >= kSureMix) answer.verdict = MixVerdict::kMix;
  }
  if (answer.verdict == MixVerdict::kOnePool) {
    answer.reason = WhyNot(*alone, mix, answer, margin, boundary);
  }
  return answer;
}

}  // namespace meshwright
