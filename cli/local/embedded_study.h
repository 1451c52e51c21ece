#pragma once

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "cli/local/local_store.h"
#include "cli/reports/study_answer.h"
#include "recorder/records.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// The surroundings of a study that this program runs itself.
struct LocalSite {
  const Knowledge& knowledge;
  OpenPlanModel open_model = {};
  std::string store = {};  // keeps its trials; empty: they are not kept
  AnswerForm form = {};
};

// Runs a study and shows a line of progress on stderr. Ctrl-C ends it with the best plan so far.
absl::StatusOr<StudyAnswer> RunLocalStudy(const LocalStudy& study, const LocalSite& site);

// Ends the job of a study that an earlier process left and records that the study is cancelled.
// After a failure the study is as it was.
absl::StatusOr<StudyRecord> CancelLocalStudy(const LocalStudy& study, const LocalSite& site);

// Records how the study ended if it has an id, prints the answer and returns the exit code.
int ConcludeLocalStudy(const absl::StatusOr<StudyAnswer>& answer, const LocalSite& site,
                       const StudyRecord& record);

}  // namespace meshwright
