#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/study.h"

namespace meshwright {

// A question with one of the precisions that it leaves open.
struct PrecisionChoice {
  StudyRequest request = {};
  std::optional<Precision> precision = {};  // absent: the question leaves none open
};

// The dimension "precision" lists what the workload leaves open: a question for each of its values,
// without that dimension. INVALID_ARGUMENT when the workload states a precision, or for what is no
// list of precisions.
absl::StatusOr<std::vector<PrecisionChoice>> PrecisionChoices(const StudyRequest& request);

struct PrecisionAnswer {
  std::optional<Precision> precision = {};
  absl::StatusOr<StudyAnswer> answer;
};

// The fastest plans of all answers, each with its precision; the baseline of the first. Infeasible
// when all are: the one that misses least. A failure only when no precision has plans.
absl::StatusOr<StudyAnswer> BestOf(std::vector<PrecisionAnswer> answers, std::size_t plan_count);

}  // namespace meshwright
