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

// The question of bench/questions.json that is called so; bench/search_report.py asks the same
// ones.
Problem ProblemOf(std::string_view question);

// One way down the space with every dimension drawn; nothing when a rule rejects it on the way.
std::optional<ParallelPlan> DrawPlan(const Problem& problem, const SearchSpace& space,
                                     std::mt19937& random);

// Plans that the rules let pass, drawn from the whole space, in the order in which a search meets
// them. The same for every run.
std::vector<ParallelPlan> DrawPlans(const Problem& problem, std::size_t count);

// One benchmark of one question, which stands in its name.
#define MESHWRIGHT_ASK(function, question) BENCHMARK_CAPTURE(function, question, #question)

// The same benchmark over the questions that all of them ask.
#define MESHWRIGHT_BENCHMARK(function)              \
  MESHWRIGHT_ASK(function, llama2_70b_on_128_a100); \
  MESHWRIGHT_ASK(function, gpt3_175b_on_4096_a100); \
  MESHWRIGHT_ASK(function, deepseek_v3_on_2048_h800)

}  // namespace meshwright
