#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {

// Runs a study whose trials are jobs of any launcher but replay. Its candidates are the plans that
// the search expects to be fastest, and their neighbours in micro-batch; the baseline is its first
// trial. FAILED_PRECONDITION without a journal in `control`: a job that is not in a journal would
// be lost with the process.
absl::StatusOr<StudyAnswer> RunJobStudy(const ResolvedStudy& study, const Knowledge& knowledge,
                                        const StudyControl& control);

}  // namespace meshwright
