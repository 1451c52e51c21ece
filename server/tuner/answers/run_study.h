#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {

// Runs one study from question to answer: history -> calibrate -> ask, prune, estimate, keep ->
// check -> answer. Pure except for the wall clock of the deadline; needs no recorder. The same
// request gives the same answer. A cancelled or late study answers with the best plans so far and
// says so. If it has found nothing by then, the status is CANCELLED or DEADLINE_EXCEEDED. It is
// RESOURCE_EXHAUSTED with reason EVALUATION_LIMIT if a strategy found nothing within its limit of
// evaluations. Trials are refused: callers that have launchers call RunStudyWithTrials
// (server/launchers/).
absl::StatusOr<StudyAnswer> RunStudy(const ResolvedStudy& study, const Knowledge& knowledge,
                                     const StudyControl& control);

// Does the same for a question that PrepareSearch has prepared.
absl::StatusOr<StudyAnswer> AnswerQuestion(PreparedQuestion question, const StudyControl& control);

// Return the names of the prune rules, in the order in which they run, and of the strategies.
std::vector<std::string> PruneRuleNames();
std::vector<std::string> StrategyNames();

}  // namespace meshwright
