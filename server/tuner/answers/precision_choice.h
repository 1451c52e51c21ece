#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A prepared question with one of the precisions that the request leaves open.
struct PreparedPrecision {
  PreparedQuestion question = {};
  std::optional<Precision> precision = {};  // absent: the request leaves none open
};

// Prepares the question of each value of the dimension "precision", which lists what the workload
// leaves open. INVALID_ARGUMENT if the workload states a precision too, or for dimensions that
// cannot be; other errors are PrepareSearch's.
absl::StatusOr<std::vector<PreparedPrecision>> PreparePrecisions(const StudyRequest& request,
                                                                 const Knowledge& knowledge,
                                                                 const HistorySource& source);

struct PrecisionAnswer {
  std::optional<Precision> precision = {};
  Seconds floor = Seconds(0);  // no plan of the precision is faster
  absl::StatusOr<StudyAnswer> answer;
};

// The fastest plans of all answers, each with its precision, and the counts of all; the baseline of
// the first that has plans. Infeasible when all are: the one that misses least. A search that was
// cut with nothing to show is a failure only when no other has plans; any other failure is one.
absl::StatusOr<StudyAnswer> BestOf(const std::vector<PrecisionAnswer>& answers,
                                   std::size_t plan_count);

}  // namespace meshwright
