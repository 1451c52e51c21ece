#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// RunStudy (server/tuner/answers/run_study.h) for whoever has launchers: a request with trials is
// run by the launcher that it names.
absl::StatusOr<StudyAnswer> RunStudyWithTrials(const StudyRequest& request,
                                               const Knowledge& knowledge,
                                               const StudyControl& control);

}  // namespace meshwright
