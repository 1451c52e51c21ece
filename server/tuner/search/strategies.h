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
  Calibration calibration = {};  // of the model, for strategies that use it
  std::uint64_t seed = 1;
};

struct StrategyRow {
  std::string_view name;
  std::string_view what;  // for people
  std::unique_ptr<SearchStrategy> (*make)(const StrategyInput& input);
};

inline constexpr std::string_view kExhaustive = "exhaustive";

// The table of strategies; the first row is the default. All but `exhaustive` ask for every legal
// plan of the space in the end. `exhaustive` is the search of exhaustive.h behind the interface: it
// asks for the best plans by the model, best first, which is the order for a driver that runs them.
// A driver that judges by the same model learns nothing from asking, so a study without another
// strategy calls SearchExhaustively itself, on all cores.
std::span<const StrategyRow> Strategies();

// Nothing for an unknown name.
std::unique_ptr<SearchStrategy> MakeStrategy(std::string_view name, const StrategyInput& input);

// One function a file; rows of the table.
std::unique_ptr<SearchStrategy> MakeExhaustive(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeCoordinateDescent(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeMcmc(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeEvolutionary(const StrategyInput& input);
std::unique_ptr<SearchStrategy> MakeRandom(const StrategyInput& input);

}  // namespace meshwright
