#include "server/placement/placement_answer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>

namespace meshwright {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<v1::PoolNodes>;

void AddNodes(const PlacementTable& table, const Candidate& candidate, Nodes& nodes) {
  for (const PoolUse& use : candidate.uses) {
    const PlacementPool& pool = table.pools[static_cast<std::size_t>(use.pool)];
    v1::PoolNodes& added = *nodes.Add();
    added.set_cluster(pool.cluster_name);
    added.set_pool(pool.pool_name);
    added.set_node_count(use.node_count);
  }
}

const TunedOption& OptionAt(const TunedJob& job, int index) {
  return job.options[static_cast<std::size_t>(index)];
}

std::string NameAt(const PlacementTable& table, int job) {
  return table.jobs[static_cast<std::size_t>(job)].job.name();
}

// Returns why a job that could run does not.
std::string NotPlacedReason(const PlacementTable& table, const PlacementResult& result, int job) {
  for (const Displacement& displaced : result.displaced) {
    if (displaced.job != job || displaced.holders.empty()) continue;
    std::vector<std::string> names;
    for (const int holder : displaced.holders) names.push_back(NameAt(table, holder));
    return fmt::format("the objective is greater if {} {} the nodes", fmt::join(names, ", "),
                       names.size() == 1 ? "has" : "have");
  }
  return "the objective is greater without it";
}

void SetPlan(const TunedJob& job, const TunedOption& option, const PlacementTable& table,
             v1::JobPlacement& out) {
  AddNodes(table, option.candidate, *out.mutable_nodes());
  out.set_device_count(option.candidate.device_count);
  out.set_tokens_per_second(option.tuned.tokens_per_second);
  *out.mutable_plan() = *option.tuned.plan;
  if (option.days.has_value()) out.set_days(*option.days);
  if (job.job.has_max_days()) out.set_meets_deadline(*option.days <= job.job.max_days());
}

v1::JobPlacement JobOf(const PlacementTable& table, const AssignmentProblem& problem,
                       const PlacementResult& result, std::size_t index) {
  const TunedJob& job = table.jobs[index];
  const PlacedJob& placed = problem.jobs[index];
  v1::JobPlacement out;
  out.set_name(job.job.name());
  out.set_weight(placed.weight);
  const std::optional<int> best = BestOption(problem, placed);
  if (best.has_value()) {
    AddNodes(table, OptionAt(job, *best).candidate, *out.mutable_best_nodes());
    out.set_best_tokens_per_second(OptionAt(job, *best).tuned.tokens_per_second);
  }
  const std::optional<int> own = result.placement.assignment[index];
  if (own.has_value()) {
    out.set_throughput_ratio(placed.options[static_cast<std::size_t>(*own)].throughput_ratio);
    SetPlan(job, OptionAt(job, *own), table, out);
  } else {
    out.set_reason(best.has_value() ? NotPlacedReason(table, result, static_cast<int>(index))
                                    : job.reason);
    if (job.job.has_max_days()) out.set_meets_deadline(false);
  }
  return out;
}

// Warns of a job that may run out of memory wherever it runs.
void WarnIfUnsure(const TunedJob& job, const TunedOption& option, v1::PlacementAnswer& answer) {
  if (option.tuned.is_sure) return;
  answer.add_warnings(
      fmt::format("job \"{}\": its plan fits with a probability of {:.0f} %; it is no surer on any "
                  "nodes that it "
                  "may have",
                  job.job.name(), 100 * option.tuned.plan->estimate().fit_probability_ratio()));
}

v1::DisplacedJob DisplacedOf(const PlacementTable& table, const Displacement& displaced) {
  v1::DisplacedJob out;
  out.set_name(NameAt(table, displaced.job));
  const TunedJob& job = table.jobs[static_cast<std::size_t>(displaced.job)];
  AddNodes(table, OptionAt(job, displaced.best_option).candidate, *out.mutable_best_nodes());
  for (const int holder : displaced.holders) out.add_holders(NameAt(table, holder));
  out.set_lost_ratio(displaced.lost_ratio);
  out.set_objective_price(displaced.price.first);
  out.set_throughput_price(displaced.price.throughput);
  out.set_is_proven(displaced.price.is_proven);
  return out;
}

}  // namespace

v1::PlacementAnswer AnswerOf(const PlacementTable& table, const AssignmentProblem& problem,
                             const PlacementResult& result) {
  v1::PlacementAnswer answer;
  answer.set_objective(std::string(Word(problem.objective)));
  answer.set_objective_value(result.placement.score.first);
  answer.set_objective_bound(result.placement.bound.first);
  answer.set_throughput_value(result.placement.score.throughput);
  answer.set_throughput_bound(result.placement.bound.throughput);
  answer.set_is_proven(result.placement.is_proven);
  answer.set_first_come_objective_value(result.first_come.first);
  answer.set_first_come_throughput_value(result.first_come.throughput);
  for (std::size_t i = 0; i < table.jobs.size(); ++i) {
    *answer.add_jobs() = JobOf(table, problem, result, i);
    const std::optional<int> own = result.placement.assignment[i];
    if (own.has_value()) WarnIfUnsure(table.jobs[i], OptionAt(table.jobs[i], *own), answer);
  }
  for (const Displacement& displaced : result.displaced) {
    *answer.add_displaced() = DisplacedOf(table, displaced);
  }
  const std::vector<int> free = FreeNodes(problem, result.placement.assignment);
  for (std::size_t p = 0; p < table.pools.size(); ++p) {
    v1::PoolNodeValue& pool = *answer.add_pools();
    pool.set_cluster(table.pools[p].cluster_name);
    pool.set_pool(table.pools[p].pool_name);
    pool.set_node_count(table.pools[p].node_count);
    pool.set_used_node_count(table.pools[p].node_count - free[p]);
    pool.set_objective_gain(result.node_values[p].first);
    pool.set_throughput_gain(result.node_values[p].throughput);
    pool.set_is_proven(result.node_values[p].is_proven);
  }
  answer.mutable_search()->set_candidate_count(table.candidate_count);
  answer.mutable_search()->set_fitting_count(table.fitting_count);
  return answer;
}

}  // namespace meshwright
