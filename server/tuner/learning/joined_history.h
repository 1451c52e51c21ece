#pragma once

#include "absl/status/statusor.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The request with what the source has for `problem`, which its question resolves to: rows behind
// its own, their warnings, and up to which number they are. A run that is in both counts once: job,
// plan, outcome and measured figures are the same. Its row stays where the request has it and takes
// the store's id, so that it counts for what the store's alone would.
absl::StatusOr<StudyRequest> WithStoreHistory(StudyRequest request, const Problem& problem,
                                              const Knowledge& knowledge,
                                              const HistorySource& source);

}  // namespace meshwright
