#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace meshwright {

// The assignment of jobs to the nodes of pools: numbers only, without models and plans. The nodes
// of a pool are interchangeable, so that an option is a number of nodes of one pool or of several.

struct PoolUse {
  int pool = 0;  // index in AssignmentProblem::node_counts
  int node_count = 0;
  bool operator==(const PoolUse&) const = default;
};

// One way to run a job.
struct PlacementOption {
  std::vector<PoolUse> uses = {};
  double throughput_ratio = 0;  // throughput / that of the job's best available option
  bool meets_deadline = false;
};

struct PlacedJob {
  double weight = 1;
  bool is_required = false;  // an assignment without it does not count
  // May hold options that need more nodes than a pool has. They count if the pool grows
  // (NodeValues).
  std::vector<PlacementOption> options = {};
};

// The figure that is maximised first. The weighted sum of throughput ratios decides among equals.
enum class PlacementObjective {
  kThroughput,  // the weighted sum of throughput ratios
  kDeadline,    // the weights of the jobs that meet their deadlines
  kFair         // the least throughput ratio of the jobs that have an option; 0 for one not placed
};

inline std::string_view Word(PlacementObjective objective) {
  if (objective == PlacementObjective::kThroughput) return "throughput";
  return objective == PlacementObjective::kDeadline ? "deadline" : "fair";
}

struct AssignmentProblem {
  std::vector<int> node_counts = {};  // of each pool
  std::vector<PlacedJob> jobs = {};
  PlacementObjective objective = PlacementObjective::kThroughput;
};

// The index of each job's option; absent: the job is not placed.
using Assignment = std::vector<std::optional<int>>;

// Scores of assignments are compared by `first`, then by `throughput`.
struct PlacementScore {
  double first = 0;       // the figure of the objective
  double throughput = 0;  // the weighted sum of throughput ratios
};

// Returns true if `a` is better than `b` by more than rounding.
bool IsBetter(const PlacementScore& a, const PlacementScore& b);

// Returns true if the pools have the nodes that an option takes, when nobody else uses them.
bool IsAvailable(const AssignmentProblem& problem, const PlacementOption& option);

// Returns the available option with the highest throughput; of equals the first. Absent: none is
// available.
std::optional<int> BestOption(const AssignmentProblem& problem, const PlacedJob& job);

// Returns the nodes of each pool that an assignment leaves free; negative: it uses too many.
std::vector<int> FreeNodes(const AssignmentProblem& problem, const Assignment& assignment);

PlacementScore ScoreOf(const AssignmentProblem& problem, const Assignment& assignment);

// Returns the assignment in which each job in turn takes the best option that still fits; required
// jobs come first.
Assignment FirstComeFirstServed(const AssignmentProblem& problem);

// Returns an assignment that is as good or better, in which single jobs and pairs of jobs take the
// first of equal options. Solvers differ in which of equal optima they find.
Assignment Polished(const AssignmentProblem& problem, Assignment assignment);

}  // namespace meshwright
