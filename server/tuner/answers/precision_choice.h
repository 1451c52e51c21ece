#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A question with one of the precisions that it leaves open.
struct PrecisionChoice {
  StudyRequest request = {};
  std::optional<Precision> precision = {};  // absent: the question leaves none open
};

// The dimension "precision" lists what the workload leaves open: a question for each of its values.
// INVALID_ARGUMENT when the workload states a precision, or for dimensions that cannot be.
absl::StatusOr<std::vector<PrecisionChoice>> PrecisionChoices(const StudyRequest& request);

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
