#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "estimator/learning/calibration.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/space/space.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {

struct StrategyInput {
  const SearchSpace& space;  // outlives the strategy
  EstimatorProblem problem;
  Calibration calibration = {};  // the model's, for strategies that use it
  std::uint64_t seed = 1;
};

struct StrategyRow {
  std::string_view name;
  std::string_view what;  // description for people
  std::unique_ptr<SearchStrategy> (*make)(const StrategyInput& input);
};

// Returns the table of strategies; the first row is the default. Every strategy but `exhaustive`
// asks for every legal plan of the space in the end. `exhaustive` wraps the search of exhaustive.h:
// it asks for the best plans by the model, best first, which is the order for a driver that runs
// them. A driver that judges by the same model learns nothing from asking, so a study without
// another strategy calls SearchExhaustively itself, on all cores.
std::span<const StrategyRow> Strategies();

// Returns null for an unknown name.
std::unique_ptr<SearchStrategy> MakeStrategy(std::string_view name, const StrategyInput& input);

// Constructors of the strategies in the table; each has a file of its own.
std::unique_ptr<SearchStrategy> MakeExhaustive(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeCoordinateDescent(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeMcmc(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeEvolutionary(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeRandom(const StrategyInput& input);

}  // namespace meshwright
