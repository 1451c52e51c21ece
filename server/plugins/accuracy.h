#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A measured run that a model was not compared with.
struct SkippedRun {
  int row = 0;  // in the file, from 0
  std::string why = {};
};

// How close a model comes to measured runs, and if it would have chosen the same plans. A plan that
// was run more than once counts once, with the mean of its times.
struct Accuracy {
  int plan_count = 0;             // number of compared plans
  double median_error_ratio = 0;  // |estimate / measured - 1|
  double mean_error_ratio = 0;
  double p90_error_ratio = 0;
  // These count questions with at least 3 plans. If the model gives equal times, the measured best
  // counts as the last of them.
  int question_count = 0;
  double rank_correlation = 0;  // Spearman's; the mean over the questions
  int first_count = 0;          // questions whose measured best is the model's first choice
  int first_three_count = 0;
  std::vector<SkippedRun> skipped = {};
};

// Opens the model for a problem, which must outlive it.
using OpenForProblem =
    std::function<absl::StatusOr<std::unique_ptr<PlanModel>>(const Problem& problem)>;

// UNAVAILABLE if the model cannot be asked any more.
absl::StatusOr<Accuracy> CompareWithRuns(const std::vector<HistoryRow>& runs,
                                         const OpenForProblem& open);

// Returns Spearman's rank correlation of two lists of equal length. Equal values share their ranks;
// 0 if all values of one list are equal.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace meshwright
