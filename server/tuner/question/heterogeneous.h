#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/plan.h"

namespace meshwright {

// Tells whether to train on several pools at once.
enum class MixVerdict { kMix, kOnePool };

inline std::string_view Word(MixVerdict verdict) {
  return verdict == MixVerdict::kMix ? "mix" : "one_pool";
}

// The stage that limits a mixed plan.
struct MixBottleneck {
  std::string pool = {};
  int stage = 0;
  std::string cause = {};  // compute, memory (it recomputes) or messages
};

// The best plan that uses exactly these pools.
struct PoolSetPlan {
  std::vector<std::string> pools = {};  // in the order of the pipeline
  double tokens_per_second = 0;
  ParallelPlan plan = {};
};

// The best mixed plan of a generation of mixed training.
struct MixGeneration {
  std::string name = {};  // hetero_dp, hetero_pp or hetero_tp
  double tokens_per_second = 0;
  double efficiency_ratio = 0;
};

// The gain from mixing the pools of a cluster in one job. Throughputs are those of the fastest
// plans by the model.
struct Heterogeneous {
  std::map<std::string, double> tokens_per_second_by_pool = {};  // of the pools that hold the job
  double lower_bound_tokens_per_second = 0;                      // of the best pool alone
  double upper_bound_tokens_per_second = 0;                      // sum of the pools alone
  double efficiency_ratio = 0;
  double gain_ratio = 0;
  MixVerdict verdict = MixVerdict::kOnePool;
  std::string reason = {};
  std::optional<double> gain_low_ratio = {};  // exceeded with the probability kSureMix
  std::optional<MixBottleneck> bottleneck = {};
  std::vector<PoolSetPlan> best_by_pool_set = {};  // the fastest first
  std::vector<MixGeneration> generations = {};
};

}  // namespace meshwright
