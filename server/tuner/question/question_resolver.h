#pragma once

#include <deque>
#include <memory>

#include "absl/status/statusor.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Resolves questions and remembers the last few, since the rows of a history mostly share a few
// questions. For one thread; the knowledge outlives it.
class QuestionResolver {
 public:
  explicit QuestionResolver(const Knowledge& knowledge) : knowledge_(knowledge) {}

  // Returns what ResolveProblem returns, shared by equal questions.
  absl::StatusOr<std::shared_ptr<const Problem>> Resolve(const Question& question);

  [[nodiscard]] const Knowledge& knowledge() const { return knowledge_; }

 private:
  struct Resolved {
    Question question = {};
    absl::StatusOr<std::shared_ptr<const Problem>> problem = nullptr;
  };

  const Knowledge& knowledge_;
  std::deque<Resolved> last_;  // newest first
};

}  // namespace meshwright
