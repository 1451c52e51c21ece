#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The answer for a number of nodes, and for a share of each device's memory that stays free.
struct SweepPoint {
  int cluster_index = 0;  // 0: the question's own, 1: the first of the others
  std::string cluster_name = {};
  std::string chip = {};  // id
  int device_count = 0;
  double free_memory_ratio = 0;
  // The fastest plan, among those that fit with the request's least probability if there are any;
  // absent: none fits.
  std::optional<RankedPlan> best = {};
  // The plan that `tune` launches there (docs/choice.md), with its reason. It may be another one.
  // Only by the built-in model.
  std::optional<RankedPlan> launch = {};
  // Devices x step time of the plan to launch / tokens of a step. Multiplied by the price of a
  // device-second it is the cost of a token.
  double device_seconds_per_token = 0;
  // True if no other point of its cluster is at least as good in step time of its plan to launch,
  // device count and free memory, and better in one of them.
  bool is_on_front = false;
};

// A cluster, and the numbers of its nodes that a sweep asks about. They replace the pool's own.
struct SweptCluster {
  ClusterRequest cluster = {};
  std::vector<int> node_counts = {};
};

// The clusters, sizes and shares of memory that a sweep asks about. The first cluster is the
// question's own.
struct SweepRange {
  std::vector<SweptCluster> clusters = {};
  std::vector<double> free_memory_ratios = {0};  // in [0, 1)
};

// Returns the sizes to try for the smallest share of a cluster: 1, 2, 3, 4, 6, 8, 12 ... nodes, up
// to all of them.
std::vector<int> SharesOf(int node_count);

// Returns the range of a question's own cluster.
SweepRange OwnRange(const StudyRequest& request, std::vector<int> node_counts,
                    std::vector<double> free_memory_ratios);

struct Sweep {
  std::vector<SweepPoint> points = {};  // ordered by cluster, device count and free memory
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
  // If the question's run has max_days: the point to take, of those on which the run ends in time.
  // It has the least price if all of them have one, else the fewest devices. Absent if there is
  // none. `reason` says why, in a sentence.
  std::optional<std::size_t> recommended = {};
  std::string reason = {};
};

// Answers every cluster, number of nodes and free memory by a search of its own, with the history
// for its own size. By the built-in model the result is the exact Pareto front of step time, device
// count and free memory at these points. If the request names a vendor's model, all points are by
// that model, and exact for those searches that ended (the warnings name the others). If the model
// cannot be asked about one of the points and the request allows a fallback, all points are by the
// built-in model and marked. Returns INVALID_ARGUMENT with what is wrong; fields of the other
// clusters start with "clusters[0]".
absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const SweepRange& range,
                               const Knowledge& knowledge, const StudyControl& control);

}  // namespace meshwright
