#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Prepares a question for its answer: adds the store's history for it and calibrates. A search has
// narrowed its space (PrepareSearch in search_plan.h). Returns INVALID_ARGUMENT with the first
// invalid row of the history; other errors are the store's.
absl::StatusOr<PreparedQuestion> Prepare(ResolvedStudy study, const Knowledge& knowledge,
                                         const HistorySource& source);

// Returns what history teaches about a problem that nobody searches: the stated rows and what
// `source` has. Returns the errors of the store.
absl::StatusOr<LearntCalibration> LearnOf(const Problem& problem,
                                          const std::vector<HistoryRow>& stated,
                                          const Knowledge& knowledge, const HistorySource& source);

// Calibrates a series of questions by one history and the history that `source` has for each. Keeps
// the last question's calibration, since cases of one question mostly come together. For one
// thread; the referents outlive it.
class Calibrator {
 public:
  Calibrator(const std::vector<HistoryRow>& history, const Knowledge& knowledge,
             HistorySource source = {})
      : history_(history), knowledge_(knowledge), source_(std::move(source)) {}
  Calibrator(std::vector<HistoryRow>&&, const Knowledge&, HistorySource = {}) = delete;

  // Returns what the history teaches about the question, which resolves to `problem`, or to a
  // problem of more pools of which this is one.
  const absl::StatusOr<LearntCalibration>& For(const Question& question, const Problem& problem);

 private:
  const std::vector<HistoryRow>& history_;
  const Knowledge& knowledge_;
  const HistorySource source_;
  std::optional<Question> question_ = {};
  std::vector<std::string> pools_ = {};  // of the problem
  absl::StatusOr<LearntCalibration> learnt_ = LearntCalibration();
};

}  // namespace meshwright
