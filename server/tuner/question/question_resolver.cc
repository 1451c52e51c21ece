#include "server/tuner/question/question_resolver.h"

#include <algorithm>
#include <utility>

namespace meshwright {
namespace {

constexpr std::size_t kRemembered = 64;

}  // namespace

absl::StatusOr<std::shared_ptr<const Problem>> QuestionResolver::Resolve(const Question& question) {
  const auto known = std::ranges::find(last_, question, &Resolved::question);
  if (known != last_.end()) return known->problem;
  if (last_.size() == kRemembered) last_.pop_back();
  Resolved& resolved = last_.emplace_front(Resolved{.question = question});
  absl::StatusOr<Problem> problem = ResolveProblem(question, knowledge_);
  if (problem.ok()) {
    resolved.problem = std::make_shared<const Problem>(*std::move(problem));
  } else {
    resolved.problem = problem.status();
  }
  return resolved.problem;
}

}  // namespace meshwright
