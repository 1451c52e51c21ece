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
  int row = 0;  // of the file, from 0
  std::string why = {};
};

// How near a model comes to measured runs, and whether it would have chosen as they do. A plan that
// was run more than once counts as one, with the mean of its times.
struct Accuracy {
  int plan_count = 0;             // compared
  double median_error_ratio = 0;  // |estimate / measured - 1|
  double mean_error_ratio = 0;
  double p90_error_ratio = 0;
  // Of questions with at least 3 plans; of a model's equal times the measured best is the last.
  int question_count = 0;
  double rank_correlation = 0;  // Spearman's, mean of the questions
  int first_count = 0;          // questions whose measured best is the model's first choice
  int first_three_count = 0;
  std::vector<SkippedRun> skipped = {};
};

// Opens the model for a problem, which outlives it.
using OpenForProblem =
    std::function<absl::StatusOr<std::unique_ptr<PlanModel>>(const Problem& problem)>;

// UNAVAILABLE: the model can be asked nothing any more.
absl::StatusOr<Accuracy> CompareWithRuns(const std::vector<HistoryRow>& runs,
                                         const Knowledge& knowledge, const OpenForProblem& open);

// Spearman's rank correlation of as many values; equal ones share their ranks. 0 where all values
// of one are equal.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace meshwright
