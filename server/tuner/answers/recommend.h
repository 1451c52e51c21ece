#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/tuner/answers/switched.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/baseline.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Returns the fastest plans of different kinds that fit with the request's least probability, and
// all that may be tied with the fastest of them, by another search than the one that found `found`.
// Returns `found` if no plan fits so surely, or if that search ended early. Warns if the other one
// ends early or finds too many.
SearchFound SafePlans(const PreparedQuestion& question, const SearchFound& found,
                      const SearchOptions& options, std::vector<std::string>& warnings);

// Ranks all plans that were found, the best and those that are close to it.
std::vector<RankedPlan> CandidatesOf(const SearchFound& found, SwitchedPlans& plans);

// Sets the result's plans to `candidates` and the baseline in the order in which they should be
// launched, at most as many as the question wants, and says why the first one is first. The result
// has its model optimum.
void Recommend(const PreparedQuestion& question, std::vector<RankedPlan> candidates,
               const std::optional<Baseline>& baseline, SwitchedPlans& plans, StudyResult& result);

// Warns if a plan would fit with the request's least probability with offload of the optimizer,
// which is closed, and none of the result's plans does.
void NoteSureOffload(const PreparedQuestion& question, const SearchOptions& options,
                     StudyResult& result);

}  // namespace meshwright
