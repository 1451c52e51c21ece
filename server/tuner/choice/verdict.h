#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/tuner/choice/choice.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns a probability in words: "93 %". No estimate is certain, so there is no "100 %".
std::string ProbabilityOf(double probability);

// Returns the statement for the reason why a plan wins a tie between `tied_count` plans, or an
// empty list for kCheapest.
std::vector<VerdictFact> TieFacts(ChoiceReason reason, std::optional<int> tied_count);

// Returns the sentences that state the facts, in their order. A fact of a tie continues the
// sentence before it, and kAmongSettings introduces what follows.
std::string VerdictText(const std::vector<VerdictFact>& facts, const ChoiceLimits& limits);

}  // namespace meshwright
