#include "server/tuner/answers/mix_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "estimator/model/stage.h"
#include "estimator/model/stage_runs.h"
#include "estimator/model/time_model.h"
#include "search_space/base/count_text.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
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

// The stage that limits a mix, and what the links between its pools cost.
struct Limit {
  MixBottleneck stage = {};
  std::string stages = {};    // it and its like: "2 stages of 16 layers"
  std::string boundary = {};  // "the boundary of 25 GB/s a node takes 1.4 % of the step"
};

std::string BoundaryWords(std::string_view what, BytesPerSecond rate, double share) {
  return fmt::format("the {} of {:.3g} GB/s a node takes {:.1f} % of the step", what,
                     rate.rate / 1e9, 100 * share);
}

// Names the boundary between pools whose messages a stage waits for longest.
std::string SlowestBoundary(const StageRuns& stages, const PlanTime& time,
                            const ClusterSpec& cluster) {
  double longest = 0;
  BytesPerSecond rate = {};
  for (int i = 0; i + 1 < stages.stage_count(); ++i) {
    const NodePool& from = *stages.StageAt(i).devices->pool;
    const NodePool& to = *stages.StageAt(i + 1).devices->pool;
    if (&from == &to) continue;
    const Seconds each = time.hops.empty() ? 2 * time.shape.point_to_point
                                           : Sum(time.hops[static_cast<std::size_t>(i)]);
    const double share = time.shape.micro_batches * each / time.step;
    if (share <= longest) continue;
    longest = share;
    rate = LinkBetween(from, to, cluster).link.bandwidth_per_node;
  }
  return BoundaryWords("boundary", rate, longest);
}

// Names the slowest link between pools whose replicas add up their gradients.
std::string GradientBoundary(const Contender& mix, const ClusterSpec& cluster) {
  std::vector<const NodePool*> pools;
  for (const NodePool& pool : cluster.pools) {
    if (std::ranges::find(mix.pools, pool.name) != mix.pools.end()) pools.push_back(&pool);
  }
  std::optional<BytesPerSecond> slowest;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const NodePool& next = *pools[(i + 1) % pools.size()];  // as the ring passes
    const BytesPerSecond rate = LinkBetween(*pools[i], next, cluster).link.bandwidth_per_node;
    if (!slowest.has_value() || rate.rate < slowest->rate) slowest = rate;
  }
  const Seconds sum = mix.estimate.breakdown[static_cast<std::size_t>(TimeCause::kDataParallel)];
  return BoundaryWords("sum of the gradients over a link", slowest.value_or(BytesPerSecond{}),
                       sum / mix.estimate.step_time);
}

std::string StageWords(int stages, int layers) {
  return stages == 1 ? fmt::format("a stage of {} layers", layers)
                     : fmt::format("{} stages of {} layers", stages, layers);
}

// The stage that computes for the largest share of the step limits replicas that differ.
Limit LimitOfReplicas(const Contender& mix, const ClusterSpec& cluster) {
  const std::vector<StageEstimate>& stages = mix.estimate.stages;
  const auto busiest = std::ranges::min_element(stages, {}, &StageEstimate::idle_ratio);
  const auto at = static_cast<std::size_t>(busiest - stages.begin());
  std::size_t first = 0;  // of its group
  while (stages[first].replica_group != busiest->replica_group) ++first;
  const ReplicaGroup& group =
      mix.plan.replica_groups[static_cast<std::size_t>(busiest->replica_group)];
  const StagePlan& stage = group.stages[at - first];
  const bool recomputes = stage.recompute.granularity != RecomputeGranularity::kNone;
  const double occupied = (busiest->forward + busiest->backward + busiest->messages).count();
  const bool waits = busiest->messages.count() > kMuchWaiting * occupied;
  const auto like = std::ranges::count(group.stages, stage);
  return {.stage = {.pool = busiest->pool,
                    .stage = static_cast<int>(at),
                    .cause = waits ? "messages" : (recomputes ? "memory" : "compute")},
          .stages = fmt::format("{} {} of {}", group.replica_count,
                                group.replica_count == 1 ? "replica" : "replicas",
                                StageWords(static_cast<int>(like), stage.layer_count)),
          .boundary = GradientBoundary(mix, cluster)};
}

Limit LimitOf(const Contender& mix, AnalyticModel& model) {
  const ClusterSpec& cluster = model.problem().cluster;
  const ParallelPlan& plan = mix.plan;
  if (!plan.replica_groups.empty()) return LimitOfReplicas(mix, cluster);
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
          .stages = StageWords(run->count, run->stage.layer_count),
          .boundary = SlowestBoundary(stages, time, cluster)};
}

const Contender* FastestContender(const std::vector<Contender>& contenders) {
  const auto fastest = std::ranges::min_element(
      contenders, {}, [](const Contender& each) { return each.estimate.step_time; });
  return fastest == contenders.end() ? nullptr : &*fastest;
}

std::string WhyMix(const Limit& limit) {
  const std::string memory =
      limit.stage.cause == "memory" ? ", which recompute because memory is short" : "";
  return fmt::format("Pool \"{}\" limits the mix with {}{}; {}", limit.stage.pool, limit.stages,
                     memory, limit.boundary);
}

std::string WhyNot(const Contender& alone, const Contender* mix, const Heterogeneous& answer,
                   double margin, const std::string& boundary) {
  const std::string best =
      fmt::format("\"{}\" alone has {} tokens/s", alone.pools.front(),
                  CountText(std::llround(answer.lower_bound_tokens_per_second)));
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

// Adds the gain that this mix has for sure. Chips of both share the framework, and the mix has
// chips of the pool: the errors that the two plans have in common cancel.
void AddSureGain(const Contender& mix, const Contender& alone, double margin,
                 Heterogeneous& answer) {
  TimeUncertainty of_alone = alone.uncertainty;
  of_alone.foundation = mix.uncertainty.foundation;
  const double low =
      StepTimeRatio(mix.estimate.step_time, mix.uncertainty, alone.estimate.step_time, of_alone)
          .low;
  answer.gain_low_ratio = std::max(answer.gain_low_ratio.value_or(low), low);
  const Seconds with_margin = (1 + margin) * mix.estimate.step_time;
  const double sure =
      FasterProbability(with_margin, mix.uncertainty, alone.estimate.step_time, of_alone);
  if (with_margin < alone.estimate.step_time && sure >= kSureMix) {
    answer.verdict = MixVerdict::kMix;
  }
}

void AddGenerations(const MixContest& contest, const Contender* mix, const Problem& problem,
                    Heterogeneous& answer) {
  const auto is_faster = [](const Contender& a, const Contender& b) {
    return a.estimate.step_time < b.estimate.step_time;
  };
  const auto add = [&](std::string name, const Contender& each) {
    MixGeneration& generation = answer.generations.emplace_back();
    generation.name = std::move(name);
    generation.tokens_per_second = TokensPerSecond(each.estimate, problem);
    if (answer.upper_bound_tokens_per_second > 0) {
      generation.efficiency_ratio =
          generation.tokens_per_second / answer.upper_bound_tokens_per_second;
    }
  };
  const std::optional<Contender>& replicas = contest.replicas;
  const std::optional<Contender>& equal = contest.equal;
  if (replicas.has_value()) add("hetero_dp", *replicas);
  if (equal.has_value()) {  // it contains the one before it, as all do
    const bool has_faster = replicas.has_value() && is_faster(*replicas, *equal);
    add("hetero_pp", has_faster ? *replicas : *equal);
  }
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

bool IsSurelyFaster(const Contender& replicas, const Contender& pipeline) {
  return FasterProbability(replicas.estimate.step_time, replicas.uncertainty,
                           pipeline.estimate.step_time, pipeline.uncertainty) >= kSureMix;
}

std::vector<std::string> PoolsOf(const ParallelPlan& plan) {
  if (!StagesNamePools(plan)) return plan.pools;
  std::vector<std::string> pools;
  const auto add = [&](const std::vector<StagePlan>& stages) {
    for (const StagePlan& stage : stages) {
      if (pools.empty() || pools.back() != stage.pool) pools.push_back(stage.pool);
    }
  };
  add(plan.stages);
  for (const ReplicaGroup& group : plan.replica_groups) add(group.stages);
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
    const Limit limit = LimitOf(*mix, model);
    answer.bottleneck = limit.stage;
    boundary = limit.boundary;
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
    AddSureGain(*mix, *alone, margin, answer);
    // Replicas that differ do not stand in the way of a slower mix that is surer.
    if (contest.pipeline.has_value()) AddSureGain(*contest.pipeline, *alone, margin, answer);
  }
  if (answer.verdict == MixVerdict::kOnePool) {
    answer.reason = WhyNot(*alone, mix, answer, margin, boundary);
  }
  return answer;
}

}  // namespace meshwright
