#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Answers a question about one pool.
using OnePoolAnswer = std::function<absl::StatusOr<StudyAnswer>(const PreparedQuestion&)>;

// Answers a question about a cluster of several pools: searches each pool alone and every mix, and
// says whether to mix (docs/mixed-clusters.md). `answer_alone` answers for a pool as if the cluster
// had no other.
absl::StatusOr<StudyAnswer> AnswerMixed(const PreparedQuestion& question,
                                        const SearchOptions& options,
                                        const OnePoolAnswer& answer_alone);

}  // namespace meshwright
