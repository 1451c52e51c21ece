#pragma once

#include "server/tuner/study.h"
#include "server/tuner/trial_chooser.h"

namespace meshwright {

// Of a study whose trials are over: the candidates that no trial was spent on, by the rule that
// says why none need be, in search.pruned_count_by_rule; and a warning for each rule that leaves
// some out, with its numbers and the run that it leans on.
void NotePruned(const TrialChooser& chooser, StudyResult& result);

}  // namespace meshwright
