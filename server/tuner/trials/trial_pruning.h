#pragma once

#include <optional>

#include "estimator/learning/calibration.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/trials/trial_chooser.h"

namespace meshwright {

// Of a study whose trials are over: the candidates that no trial was spent on, by the rule that
// says why none need be, in search.pruned_count_by_rule; and a warning for each rule that leaves
// some out, with its numbers and the run that it leans on; `in_history` is the smallest that ran
// out of memory there.
void NotePruned(const TrialChooser& chooser, const std::optional<FailedRun>& in_history,
                StudyResult& result);

}  // namespace meshwright
