#pragma once

#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "pruner/pruner.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/infeasible.h"

namespace meshwright {

// Returns the question with this name in bench/questions.json; bench/search_report.py asks the same
// ones.
Problem ProblemOf(std::string_view question);

// Draws one path through the space with a random choice in every dimension. Returns nullopt if a
// rule rejects it on the way.
std::optional<ParallelPlan> DrawPlan(const Problem& problem, const SearchSpace& space,
                                     std::mt19937& random);

// Draws plans that pass the rules from the whole space, in the order in which a search visits them.
// The result is the same in every run.
std::vector<ParallelPlan> DrawPlans(const Problem& problem, std::size_t count);

// Defines a benchmark of one question, which is part of its name.
#define MESHWRIGHT_ASK(function, question) BENCHMARK_CAPTURE(function, question, #question)

// Defines the same benchmark for the questions that all benchmarks share.
#define MESHWRIGHT_BENCHMARK(function)              \
  MESHWRIGHT_ASK(function, llama2_70b_on_128_a100); \
  MESHWRIGHT_ASK(function, gpt3_175b_on_4096_a100); \
  MESHWRIGHT_ASK(function, deepseek_v3_on_2048_h800)

}  // namespace meshwright
