#include "server/tuner/learning/prepare.h"

#include <algorithm>
#include <iterator>

#include "search_space/base/status.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/history_runs.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {

absl::StatusOr<PreparedQuestion> Prepare(ResolvedStudy study, const Knowledge& knowledge,
                                         const HistorySource& source) {
  StudyRequest& request = study.request;
  const Problem& problem = study.problem;
  request.history_sequence = source.sequence;
  StoreHistory stored;
  if (source.read) {
    ASSIGN_OR_RETURN(stored, source.read(problem));
    std::ranges::move(stored.warnings, std::back_inserter(request.warnings));
  }
  std::vector<ResolvedRun> runs = ResolveRuns(request.history, stored.rows, problem, knowledge);
  LearntCalibration learnt = LearnCalibration(request, problem, runs);
  return PreparedQuestion{.request = std::move(study.request),
                          .problem = std::move(study.problem),
                          .baseline = std::move(study.baseline),
                          .runs = std::move(runs),
                          .learnt = std::move(learnt)};
}

const absl::StatusOr<LearntCalibration>& Calibrator::For(const Question& question,
                                                         const Problem& problem) {
  if (question_ != question) {
    absl::StatusOr<PreparedQuestion> prepared =
        Prepare({.request = {.question = question, .history = history_}, .problem = problem},
                knowledge_, source_);
    if (prepared.ok()) {
      learnt_ = std::move(prepared->learnt);
    } else {
      learnt_ = prepared.status();
    }
    question_ = question;
  }
  return learnt_;
}

}  // namespace meshwright
