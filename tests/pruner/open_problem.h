#pragma once

#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {

// Returns a question's problem with offload of the optimizer open, so that laws of the search cover
// it.
inline Problem OpenProblem(const Question& question) {
  Problem problem = Resolved(question);
  OpenOffload(problem);
  return problem;
}

}  // namespace meshwright
