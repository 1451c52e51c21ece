#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns a small random question about two or three pools, of which two in three are short of
// memory: 4 to 16 devices, 4 to 12 layers.
Problem RandomMixedProblem(std::mt19937_64& random);

// The result of a plain list of all mixed plans.
struct ListedMixes {
  std::optional<Seconds> least = {};  // step time of the fastest plan that fits
  ParallelPlan fastest = {};
  std::int64_t count = 0;  // legal plans
};

// Lists every mixed plan of the space that docs/mixed-clusters.md describes, one by one, and lets
// the estimator price each; returns nullopt if there are more than `limit`.
std::optional<ListedMixes> ListMixes(const Problem& problem, std::int64_t limit,
                                     const Calibration& calibration = {});

// Returns a smaller one, whose mixes and replicas that differ can both be listed: 2 to 12 devices,
// 2 to 6 layers.
Problem RandomReplicaProblem(std::mt19937_64& random);

// Lists every plan of the same page whose replicas differ.
std::optional<ListedMixes> ListReplicas(const Problem& problem, std::int64_t limit);

}  // namespace meshwright
