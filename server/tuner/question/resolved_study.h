#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// A request of a study, and everything in it that depends on its question, resolved once. Later
// code takes this type and resolves nothing.
struct ResolvedStudy {
  StudyRequest request = {};
  Problem problem = {};                       // problem of `request.question`
  std::optional<ResolvedPlan> baseline = {};  // plan of `request.baseline`
  std::vector<ParallelPlan> replay = {};      // plan of each row of `request.trials->replay`
};

// Returns UNIMPLEMENTED with reason MIXED_CLUSTER_SEARCH if there are several pools. `what` is not
// available for them.
absl::Status RequireOnePool(const Problem& problem, std::string_view what);

// Resolves a request. Returns INVALID_ARGUMENT with every bad field of the question or else of all
// its plans and of its launcher, and UNIMPLEMENTED with reason MIXED_CLUSTER_SEARCH if there are
// several pools and the request asks for more than a search by the built-in model.
absl::StatusOr<ResolvedStudy> ResolveStudy(StudyRequest request, const Knowledge& knowledge);

// Does the same, with a question that `resolver` may have resolved before.
absl::StatusOr<ResolvedStudy> ResolveStudy(StudyRequest request, QuestionResolver& resolver);

// A question and one plan for it, resolved once.
struct ResolvedCase {
  Question question = {};
  std::shared_ptr<const Problem> stated = {};   // shared by cases of one question
  std::shared_ptr<const Problem> problem = {};  // ProblemOfPlan, without the pools that are idle
  ResolvedPlan plan = {};
};

// Resolves a case. Returns INVALID_ARGUMENT with every bad field of the question or else of the
// plan.
absl::StatusOr<ResolvedCase> ResolveCase(const EvaluateRequest& request,
                                         QuestionResolver& resolver);

}  // namespace meshwright
