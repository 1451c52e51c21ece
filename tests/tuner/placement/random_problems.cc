#include "tests/tuner/placement/random_problems.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

namespace meshwright {
namespace {

// Distributions of the standard library differ from one to the next, so none is used.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  int Below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
  double Share() { return static_cast<double>(engine_() % 1'000'000) / 1e6; }

 private:
  std::mt19937_64 engine_;
};

// Returns the powers of two below a number of nodes, all of them, and one node more.
std::vector<int> NodeCountsOf(int nodes) {
  std::vector<int> counts;
  for (int count = 1; count < nodes; count *= 2) counts.push_back(count);
  counts.insert(counts.end(), {nodes, nodes + 1});
  return counts;
}

PlacedJob RandomJob(const AssignmentProblem& problem, Dice& dice) {
  PlacedJob job = {.weight = dice.Below(3) == 0 ? 1.0 : 0.1 + dice.Share() * 3};
  const int pool_count = static_cast<int>(problem.node_counts.size());
  double greatest = 0;
  for (int pool = 0; pool < pool_count; ++pool) {
    if (dice.Below(6) == 0) continue;  // the job does not fit there
    const double speed = 0.2 + dice.Share();
    const double power = 0.6 + 0.4 * dice.Share();
    const int nodes = problem.node_counts[static_cast<std::size_t>(pool)];
    for (const int count : NodeCountsOf(nodes)) {
      PlacementOption option = {.uses = {{.pool = pool, .node_count = count}},
                                .throughput_ratio = speed * std::pow(count, power)};
      if (pool + 1 < pool_count && dice.Below(10) == 0) {
        const int others = problem.node_counts[static_cast<std::size_t>(pool) + 1];
        option.uses.push_back({.pool = pool + 1, .node_count = others});
        option.throughput_ratio *= 1.5;
      }
      if (IsAvailable(problem, option)) greatest = std::max(greatest, option.throughput_ratio);
      job.options.push_back(option);
    }
  }
  const bool has_deadline = dice.Below(2) == 0;
  const double least = dice.Share();
  for (PlacementOption& option : job.options) {
    if (greatest > 0) option.throughput_ratio /= greatest;
    option.meets_deadline = has_deadline && option.throughput_ratio >= least;
  }
  return job;
}

}  // namespace

AssignmentProblem RandomProblem(std::uint64_t seed, const RandomProblemSize& size,
                                PlacementObjective objective) {
  Dice dice(seed);
  AssignmentProblem problem = {.objective = objective};
  const int pools = size.is_exactly_most ? size.most_pools : 1 + dice.Below(size.most_pools);
  const int jobs = size.is_exactly_most ? size.most_jobs : 1 + dice.Below(size.most_jobs);
  for (int i = 0; i < pools; ++i) {
    const bool is_equal = i > 0 && dice.Below(4) == 0;
    problem.node_counts.push_back(is_equal ? problem.node_counts.back()
                                           : 1 + dice.Below(size.most_nodes));
  }
  for (int i = 0; i < jobs; ++i) {
    const bool is_equal = i > 0 && dice.Below(4) == 0;
    problem.jobs.push_back(is_equal ? problem.jobs.back() : RandomJob(problem, dice));
  }
  return problem;
}

}  // namespace meshwright
