#pragma once

#include <string>
#include <vector>

#include "server/tuner/question/problem.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Explains why the space of a problem has no legal plan: a sentence for each rule that leaves plans
// out, those with most plans first, and the next step. A rule of a framework has the framework's
// own check or documentation as its source. Each plan counts for the first rule that leaves it
// out, as in a search.
std::vector<std::string> WhyNothingIsLegal(const Problem& problem, const SearchOptions& options);

}  // namespace meshwright
