#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Returns the fastest plans that fit with the request's least probability. These are the plans that
// a search of the whole space has found, if all of them do; else another search finds them. Returns
// `found` if it sees no plan that fits so surely, or if the search that found it ended early. Warns
// if the other search ends early.
SearchFound SafePlans(const PreparedQuestion& question, const SearchFound& found,
                      const SearchOptions& options, std::vector<std::string>& warnings);

// Sets the result's plans to `candidates` in the order in which they should be launched, at most
// `plan_count` of them, and says why the first one is first. The result has its model optimum, and
// its baseline if there is one.
void Recommend(const PreparedQuestion& question, std::vector<RankedPlan> candidates,
               std::size_t plan_count, AnalyticModel& model, StudyResult& result);

}  // namespace meshwright
