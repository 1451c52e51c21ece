#pragma once

#include <optional>
#include <string_view>

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The parallelism of a training recipe that a framework or a vendor has published.
struct Recipe {
  std::string_view frameworks = {};  // names of profiles, separated by spaces
  std::string_view model = {};
  double parameters = 0;  // billions
  int experts = 0;        // 0: dense
  int least_devices = 0;
  int most_devices = 0;
  int sequence_length = 0;
  int tensor = 1;
  int pipeline = 1;
  int virtual_stages = 1;
  int context = 1;
  int spread_experts = 1;
  int micro_batch = 1;
  int zero_stage = 1;
  bool counts_ends = false;        // embedding and loss count as layers of the first and last stage
  bool recomputes_layers = false;  // every layer in full; otherwise as few as make it fit
  std::string_view source = {};
};

// Returns the published recipe of the workload's framework whose model is nearest to the question's
// in size; nullptr if none is within a third, for between half of the recipe's fewest devices and
// twice its most.
const Recipe* NearestRecipe(const Problem& problem);

// Returns the recipe's plan on the devices of the cluster; nullopt if they cannot be divided so.
// Context parallelism is left out for sequences that are shorter than the recipe's.
std::optional<ParallelPlan> PlanOf(const Recipe& recipe, const Problem& problem);

}  // namespace meshwright
