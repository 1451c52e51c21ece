#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// One line of an answer: a plan, and those of its kind that cannot be told apart from it.
struct PlanKind {
  std::size_t first = 0;  // index of the plan
  std::vector<std::size_t> like = {};
};

// Returns the fields in which the plans differ from the first, with all values that occur: "8 to
// 64" for numbers, else the words.
std::vector<FieldRange> RangesOf(const ParallelPlan& first,
                                 std::span<const ParallelPlan* const> others);

}  // namespace meshwright
