#include "server/tuner/placement/assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace meshwright {
namespace {

// Sums of the same figures in another order differ by less than this share.
constexpr double kRounding = 1e-9;

bool IsMore(double a, double b) { return a > b + kRounding * std::max(1.0, std::abs(b)); }

const PlacementOption* OptionOf(const PlacedJob& job, std::optional<int> index) {
  return index.has_value() ? &job.options[static_cast<std::size_t>(*index)] : nullptr;
}

// Adds the nodes of an option to the free ones, or takes them away.
void Move(std::vector<int>& free, const PlacementOption* option, int sign) {
  if (option == nullptr) return;
  for (const PoolUse& use : option->uses) {
    free[static_cast<std::size_t>(use.pool)] += sign * use.node_count;
  }
}

bool FitsInto(const std::vector<int>& free, const PlacementOption& option) {
  return std::ranges::all_of(option.uses, [&](const PoolUse& use) {
    return use.node_count <= free[static_cast<std::size_t>(use.pool)];
  });
}

// Orders jobs that are not placed behind those that are.
int RankOf(std::optional<int> option) { return option.value_or(1 << 30); }

// Takes a change if it scores better, or equal with a smaller index at the first job that differs.
class Polisher {
 public:
  Polisher(const AssignmentProblem& problem, Assignment assignment)
      : problem_(problem), best_(std::move(assignment)), score_(ScoreOf(problem, best_)) {}

  Assignment Run() {
    // Each round improves the score, or an index at equal score; so the rounds end. The limit is
    // for scores that rounding makes equal in a circle.
    constexpr int kMaxRounds = 100;
    for (int round = 0; round < kMaxRounds && ImproveOnce(); ++round) {
    }
    return std::move(best_);
  }

 private:
  bool ImproveOnce() {
    bool has_changed = false;
    for (std::size_t i = 0; i < best_.size(); ++i) {
      const auto count = static_cast<int>(problem_.jobs[i].options.size());
      for (int option = 0; option < count; ++option) {
        has_changed = Try(i, option, i, option) || has_changed;
      }
      for (std::size_t k = i + 1; k < best_.size(); ++k) has_changed = Swap(i, k) || has_changed;
    }
    return has_changed;
  }

  // Tries to give each of two jobs an option with the nodes of the other one.
  bool Swap(std::size_t i, std::size_t k) {
    const std::optional<int> for_i = Alike(i, OptionOf(problem_.jobs[k], best_[k]));
    const std::optional<int> for_k = Alike(k, OptionOf(problem_.jobs[i], best_[i]));
    const bool is_possible = for_i.has_value() == best_[k].has_value() &&
                             for_k.has_value() == best_[i].has_value() && best_[i] != best_[k];
    return is_possible && Try(i, for_i, k, for_k);
  }

  std::optional<int> Alike(std::size_t job, const PlacementOption* wanted) const {
    if (wanted == nullptr) return std::nullopt;
    const std::vector<PlacementOption>& options = problem_.jobs[job].options;
    const auto found = std::ranges::find(options, wanted->uses, &PlacementOption::uses);
    if (found == options.end()) return std::nullopt;
    return static_cast<int>(found - options.begin());
  }

  bool Try(std::size_t i, std::optional<int> for_i, std::size_t k, std::optional<int> for_k) {
    Assignment changed = best_;
    changed[i] = for_i;
    changed[k] = for_k;
    if (changed == best_) return false;
    if ((problem_.jobs[i].is_required && !for_i) || (problem_.jobs[k].is_required && !for_k)) {
      return false;
    }
    const std::vector<int> free = FreeNodes(problem_, changed);
    if (std::ranges::any_of(free, [](int count) { return count < 0; })) return false;
    const PlacementScore score = ScoreOf(problem_, changed);
    const bool is_first = RankOf(changed[i]) < RankOf(best_[i]) && !IsBetter(score_, score);
    if (!IsBetter(score, score_) && !is_first) return false;
    best_ = std::move(changed);
    score_ = score;
    return true;
  }

  const AssignmentProblem& problem_;
  Assignment best_;
  PlacementScore score_;
};

}  // namespace

bool IsBetter(const PlacementScore& a, const PlacementScore& b) {
  if (IsMore(a.first, b.first)) return true;
  return !IsMore(b.first, a.first) && IsMore(a.throughput, b.throughput);
}

bool IsAvailable(const AssignmentProblem& problem, const PlacementOption& option) {
  return FitsInto(problem.node_counts, option);
}

std::optional<int> BestOption(const AssignmentProblem& problem, const PlacedJob& job) {
  std::optional<int> best;
  for (std::size_t i = 0; i < job.options.size(); ++i) {
    const PlacementOption& option = job.options[i];
    if (!IsAvailable(problem, option)) continue;
    if (best.has_value() && option.throughput_ratio <= OptionOf(job, best)->throughput_ratio) {
      continue;
    }
    best = static_cast<int>(i);
  }
  return best;
}

std::vector<int> FreeNodes(const AssignmentProblem& problem, const Assignment& assignment) {
  std::vector<int> free = problem.node_counts;
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    Move(free, OptionOf(problem.jobs[i], assignment[i]), -1);
  }
  return free;
}

PlacementScore ScoreOf(const AssignmentProblem& problem, const Assignment& assignment) {
  PlacementScore score;
  double met = 0;
  std::optional<double> least;
  for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
    const PlacedJob& job = problem.jobs[i];
    const PlacementOption* const option = OptionOf(job, assignment[i]);
    const double ratio = option == nullptr ? 0 : option->throughput_ratio;
    score.throughput += job.weight * ratio;
    if (option != nullptr && option->meets_deadline) met += job.weight;
    if (BestOption(problem, job).has_value()) least = std::min(least.value_or(ratio), ratio);
  }
  switch (problem.objective) {
    case PlacementObjective::kThroughput:
      score.first = score.throughput;
      break;
    case PlacementObjective::kDeadline:
      score.first = met;
      break;
    case PlacementObjective::kFair:
      score.first = least.value_or(0);
      break;
  }
  return score;
}

Assignment FirstComeFirstServed(const AssignmentProblem& problem) {
  Assignment assignment(problem.jobs.size());
  AssignmentProblem rest = problem;
  for (const bool is_required : {true, false}) {
    for (std::size_t i = 0; i < problem.jobs.size(); ++i) {
      const PlacedJob& job = problem.jobs[i];
      if (job.is_required != is_required) continue;
      assignment[i] = BestOption(rest, job);
      Move(rest.node_counts, OptionOf(job, assignment[i]), -1);
    }
  }
  return assignment;
}

Assignment Polished(const AssignmentProblem& problem, Assignment assignment) {
  return Polisher(problem, std::move(assignment)).Run();
}

}  // namespace meshwright
