#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {

// Does what RunStudy (server/tuner/answers/run_study.h) does, and runs a request with trials with
// the launcher that it names.
absl::StatusOr<StudyAnswer> RunStudyWithTrials(const ResolvedStudy& study,
                                               const Knowledge& knowledge,
                                               const StudyControl& control);

}  // namespace meshwright
