#include "server/tuner/search/strategies.h"

#include <algorithm>

#include "server/tuner/question/study_request.h"

namespace meshwright {

std::span<const StrategyRow> Strategies() {
  static constexpr StrategyRow kRows[] = {
      {kExhaustive, "searches the whole space by branch and bound; proves its answer",
       &MakeExhaustive},
      {"coordinate_descent",
       "takes the best of one dimension after the other, from many starting plans",
       &MakeCoordinateDescent},
      {"mcmc", "walks a Markov chain that accepts worse plans now and then (Metropolis)",
       &MakeMcmc},
      {"evolutionary", "crosses and mutates the best plans so far", &MakeEvolutionary},
      {"random", "draws from the whole space, every plan equally likely", &MakeRandom},
  };
  return kRows;
}

std::unique_ptr<SearchStrategy> MakeStrategy(std::string_view name, const StrategyInput& input) {
  const auto rows = Strategies();
  const auto row = std::ranges::find(rows, name, &StrategyRow::name);
  return row == rows.end() ? nullptr : row->make(input);
}

}  // namespace meshwright
