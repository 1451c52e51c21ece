#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Prepares a question for its answer: adds what the store has of it and calibrates. `problem` is
// what the request's question resolves to; a search has narrowed its space (PrepareSearch in
// search_plan.h). INVALID_ARGUMENT names the first row of the history that cannot be; other errors
// are the store's.
absl::StatusOr<PreparedQuestion> Prepare(StudyRequest request, Problem problem,
                                         const Knowledge& knowledge, const HistorySource& source);

// Calibrates one question after the other by one history and what `source` has for each. Keeps
// the last question's, since cases of one question mostly come together. For one thread; the
// referents outlive it.
class Calibrator {
 public:
  Calibrator(const std::vector<HistoryRow>& history, const Knowledge& knowledge,
             HistorySource source = {})
      : history_(history), knowledge_(knowledge), source_(std::move(source)) {}
  Calibrator(std::vector<HistoryRow>&&, const Knowledge&, HistorySource = {}) = delete;

  // Returns what the history teaches of the question, which resolves to `problem`.
  const absl::StatusOr<LearntCalibration>& For(const Question& question, const Problem& problem);

 private:
  const std::vector<HistoryRow>& history_;
  const Knowledge& knowledge_;
  const HistorySource source_;
  std::optional<Question> question_ = {};
  absl::StatusOr<LearntCalibration> learnt_ = LearntCalibration();
};

}  // namespace meshwright
