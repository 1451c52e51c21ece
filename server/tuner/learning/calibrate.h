#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// What measured rows of the same chip and framework as the problem teach of its step times and
// memory (docs/cost_model.md "Learning from runs"): for memory one factor, for time a factor of the
// job and one of each plan, drawn towards 1 while rows are few. Rows of another model, workload or
// cluster count as less alike, and as nothing when the job's own rows contradict them; the warnings
// say so. Of out-of-memory rows the smallest marks the modelled size at which such chips fail,
// where no row that ran is modelled larger; plans of the own job that failed and never ran are kept
// by themselves. Rows of other chips or frameworks are left out. The order of the rows does not
// matter.
absl::StatusOr<Calibration> Calibrate(const std::vector<HistoryRow>& history,
                                      const Problem& problem, const Knowledge& knowledge);

// The same of a request's history, with what there is to say of it.
struct LearntCalibration {
  Calibration calibration = {};
  std::optional<CalibrationReport> report = {};  // absent: no run of the history teaches anything
};
absl::StatusOr<LearntCalibration> LearnCalibration(const StudyRequest& request,
                                                   const Problem& problem,
                                                   const Knowledge& knowledge);

// Leaves nothing of failures where the rule `history` is off; whether it is.
bool ForgetFailuresIfOff(const std::vector<std::string>& disabled_rules, Calibration& calibration);

// Whether model, workload and cluster are equal, whatever they are called.
bool IsSameJob(const Problem& a, const Problem& b);

// Calibrates one question after the other by one history and what `source` has for each. Keeps
// the last question's, since cases of one question mostly come together. For one thread; the
// referents outlive it.
class Calibrator {
 public:
  Calibrator(const std::vector<HistoryRow>& history, const Knowledge& knowledge,
             HistorySource source = {})
      : history_(history), knowledge_(knowledge), source_(std::move(source)) {}
  Calibrator(std::vector<HistoryRow>&&, const Knowledge&, HistorySource = {}) = delete;

  // `problem` is what the question resolves to.
  const absl::StatusOr<LearntCalibration>& For(const Question& question, const Problem& problem);

 private:
  absl::StatusOr<LearntCalibration> Learn(const Problem& problem) const;

  const std::vector<HistoryRow>& history_;
  const Knowledge& knowledge_;
  const HistorySource source_;
  std::optional<Question> question_ = {};
  absl::StatusOr<LearntCalibration> learnt_ = LearntCalibration();
};

// What to tell a user of both.
std::vector<std::string> WarningsOf(const Problem& problem, const Calibration& calibration);

}  // namespace meshwright
