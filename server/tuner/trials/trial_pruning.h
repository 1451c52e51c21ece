#pragma once

#include <optional>

#include "estimator/learning/calibration.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/trials/trial_chooser.h"

namespace meshwright {

// Reports the candidates of a finished study that were not tried, by the rule that makes a trial
// unnecessary, in search.pruned_count_by_rule. Adds a warning for each rule that leaves some out,
// with its numbers and the run that it relies on. `in_history` is the smallest run that ran out of
// memory in the history.
void NotePruned(const TrialChooser& chooser, const std::optional<FailedRun>& in_history,
                StudyResult& result);

}  // namespace meshwright
