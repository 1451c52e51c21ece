#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A prepared question with one of the precisions that the request leaves open.
struct PreparedPrecision {
  PreparedQuestion question = {};
  std::optional<Precision> precision = {};  // absent: the request leaves none open
};

// Prepares the question once for each value of the dimension "precision", which lists the
// precisions that the workload leaves open. Returns INVALID_ARGUMENT if the workload states a
// precision too, or for impossible dimensions; other errors are those of ResolveStudy and
// PrepareSearch.
absl::StatusOr<std::vector<PreparedPrecision>> PreparePrecisions(const ResolvedStudy& study,
                                                                 const Knowledge& knowledge,
                                                                 const HistorySource& source);

struct PrecisionAnswer {
  std::optional<Precision> precision = {};
  Seconds floor = Seconds(0);  // no plan of the precision is faster
  absl::StatusOr<StudyAnswer> answer;
};

// Returns the fastest plans of all answers, each with its precision, after the plan to launch: the
// fastest of those that the answers recommend. Returns the counts of all, and the baseline of the
// first answer that has plans. If all are infeasible, returns the one that misses
// the least memory. A search that was cut and has nothing to show is a failure only if no other
// answer has plans; any other failure always is one.
absl::StatusOr<StudyAnswer> BestOf(const std::vector<PrecisionAnswer>& answers,
                                   const StudyRequest& request);

}  // namespace meshwright
