#include "server/plugins/accuracy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "search_space/base/median.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/model_search.h"

namespace meshwright {
namespace {

constexpr std::size_t kFewestPlans = 3;  // an order of fewer says nothing
constexpr double kPercentile = 0.9;

// The plans of one question that were run.
struct Group {
  Question question = {};
  std::shared_ptr<const Problem> problem = {};
  std::vector<int> rows = {};
};

// One plan, measured and estimated.
struct Pair {
  ParallelPlan plan = {};
  double measured = 0;  // mean in seconds
  double estimated = 0;
  int run_count = 0;
  std::vector<int> rows = {};
};

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto less = std::ranges::count_if(values, [&](double v) { return v < value; });
    const auto equal = std::ranges::count(values, value);
    ranks.push_back(static_cast<double>(less) + static_cast<double>(equal - 1) / 2);
  }
  return ranks;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<SkippedRun> SkippedOf(const std::vector<int>& rows, const std::string& why) {
  std::vector<SkippedRun> skipped;
  skipped.reserve(rows.size());
  for (const int row : rows) skipped.push_back({.row = row, .why = why});
  return skipped;
}

std::vector<SkippedRun> Joined(std::vector<SkippedRun> a, const std::vector<SkippedRun>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The runs to compare, by question.
struct Grouped {
  std::vector<Group> groups = {};
  std::vector<SkippedRun> skipped = {};
};

Grouped GroupsOf(const std::vector<HistoryRow>& runs) {
  Grouped all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const HistoryRow& run = runs[i];
    const int row = static_cast<int>(i);
    if (run.outcome != Outcome::kOk || !run.step_time.has_value()) {
      all.skipped.push_back({.row = row, .why = "has no step time of a run that went well"});
      continue;
    }
    const auto known = std::ranges::find(all.groups, run.question, &Group::question);
    if (known != all.groups.end()) {
      known->rows.push_back(row);
    } else {
      all.groups.push_back(
          {.question = run.question, .problem = run.resolved.problem, .rows = {row}});
    }
  }
  return all;
}

std::vector<Pair> PlansOf(const Group& group, const std::vector<HistoryRow>& runs) {
  std::vector<Pair> pairs;
  for (const int row : group.rows) {
    const HistoryRow& run = runs[static_cast<std::size_t>(row)];
    const ParallelPlan plan = WithUnevenSplit(run.resolved.plan, *group.problem);
    auto pair = std::ranges::find(pairs, plan, &Pair::plan);
    if (pair == pairs.end()) pair = pairs.insert(pairs.end(), Pair{.plan = plan});
    ++pair->run_count;
    pair->measured += (run.step_time->count() - pair->measured) / pair->run_count;
    pair->rows.push_back(row);
  }
  return pairs;
}

// The plans of one question that are compared.
struct Compared {
  std::vector<Pair> pairs = {};
  std::vector<SkippedRun> skipped = {};
};

// Returns the plans that the model can estimate.
absl::StatusOr<Compared> Estimated(PlanModel& model, const std::vector<Pair>& pairs) {
  std::vector<ParallelPlan> plans;
  plans.reserve(pairs.size());
  for (const Pair& pair : pairs) plans.push_back(pair.plan);
  ASSIGN_OR_RETURN(const std::vector<PlanFigures> figures, model.Estimate(plans, {}));
  Compared kept;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    if (figures[i].verdict != PlanVerdict::kOk) {
      kept.skipped =
          Joined(std::move(kept.skipped), SkippedOf(pair.rows, "the model: " + figures[i].reason));
      continue;
    }
    kept.pairs.push_back(pair);
    kept.pairs.back().estimated = figures[i].step_time.count();
  }
  return kept;
}

// Compares the plans of one question.
absl::StatusOr<Compared> CompareGroup(const Group& group, const std::vector<HistoryRow>& runs,
                                      const OpenForProblem& open) {
  const auto model = open(*group.problem);
  if (absl::IsUnavailable(model.status())) return model.status();
  if (!model.ok()) {
    return Compared{.skipped = SkippedOf(group.rows, std::string(model.status().message()))};
  }
  return Estimated(**model, PlansOf(group, runs));
}

// Figures of how well the model orders the plans of one question.
struct Order {
  double rank_correlation = 0;
  bool is_best_first = false;  // the measured best is the model's first choice
  bool is_best_among_three = false;
};

Order OrderOf(const std::vector<Pair>& pairs) {
  std::vector<double> measured;
  std::vector<double> estimated;
  for (const Pair& pair : pairs) {
    measured.push_back(pair.measured);
    estimated.push_back(pair.estimated);
  }
  const Pair& best = *std::ranges::min_element(pairs, {}, &Pair::measured);
  const auto before = std::ranges::count_if(
      // counts itself
      pairs, [&](const Pair& other) { return other.estimated <= best.estimated; });
  return {.rank_correlation = RankCorrelation(measured, estimated),
          .is_best_first = before <= 1,
          .is_best_among_three = before <= 3};
}

// Returns the 90th percentile of sorted values, of which there is at least one.
double P90(const std::vector<double>& sorted) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(kPercentile * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

Accuracy Summary(std::vector<double> errors, const std::vector<Order>& orders,
                 std::vector<SkippedRun> skipped) {
  std::ranges::sort(errors);
  std::ranges::sort(skipped, {}, &SkippedRun::row);
  std::vector<double> correlations;
  correlations.reserve(orders.size());
  for (const Order& order : orders) correlations.push_back(order.rank_correlation);
  return {.plan_count = static_cast<int>(errors.size()),
          .median_error_ratio = errors.empty() ? 0 : Median(errors),
          .mean_error_ratio = errors.empty() ? 0 : Mean(errors),
          .p90_error_ratio = errors.empty() ? 0 : P90(errors),
          .question_count = static_cast<int>(orders.size()),
          .rank_correlation = orders.empty() ? 0 : Mean(correlations),
          .first_count = static_cast<int>(std::ranges::count(orders, true, &Order::is_best_first)),
          .first_three_count =
              static_cast<int>(std::ranges::count(orders, true, &Order::is_best_among_three)),
          .skipped = std::move(skipped)};
}

}  // namespace

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a);
  const std::vector<double> y = Ranks(b);
  const double mean_x = Mean(x);
  const double mean_y = Mean(y);
  double xy = 0;
  double xx = 0;
  double yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

absl::StatusOr<Accuracy> CompareWithRuns(const std::vector<HistoryRow>& runs,
                                         const OpenForProblem& open) {
  Grouped grouped = GroupsOf(runs);
  std::vector<SkippedRun> skipped = std::move(grouped.skipped);
  std::vector<double> errors;
  std::vector<Order> orders;
  for (const Group& group : grouped.groups) {
    ASSIGN_OR_RETURN(const Compared compared, CompareGroup(group, runs, open));
    skipped = Joined(std::move(skipped), compared.skipped);
    for (const Pair& pair : compared.pairs) {
      errors.push_back(std::abs(pair.estimated / pair.measured - 1));
    }
    if (compared.pairs.size() >= kFewestPlans) orders.push_back(OrderOf(compared.pairs));
  }
  return Summary(std::move(errors), orders, std::move(skipped));
}

}  // namespace meshwright
