#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/learning/uncertainty.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/heterogeneous.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// The fastest plan of a pool alone, or of a set of pools, with its uncertainty.
struct Contender {
  std::vector<std::string> pools = {};  // in the order of the pipeline, or of the replica groups
  ParallelPlan plan = {};               // for the whole cluster
  Estimate estimate = {};
  TimeUncertainty uncertainty = {};
};

// The contenders for a job on a cluster of several pools.
struct MixContest {
  std::vector<Contender> alone = {};       // of the pools that hold the job
  std::vector<Contender> mixes = {};       // of the sets that do
  std::optional<Contender> pipeline = {};  // the fastest mix that has no replicas that differ
  std::optional<Contender> equal = {};     // the fastest mix whose stages have equal degrees
  std::optional<Contender> replicas = {};  // the fastest mix whose replicas differ
  double gap = 0;                          // of the fastest plan of all
};

// Returns true if `replicas`, a plan whose replicas differ, is to be used rather than a slower mix
// that has none: if it is faster with the probability kSureMix.
bool IsSurelyFaster(const Contender& replicas, const Contender& pipeline);

// Returns the pools that a plan uses, in the order of its pipeline or of its replica groups.
std::vector<std::string> PoolsOf(const ParallelPlan& plan);

double TokensPerSecond(const Estimate& estimate, const Problem& problem);

// Compares mixes and pools, and says whether to mix: if the gain exceeds the margin with the
// probability kSureMix. `model` is that of the whole cluster. There is a contender.
Heterogeneous Compare(const MixContest& contest, double margin, const Problem& problem,
                      AnalyticModel& model);

}  // namespace meshwright
