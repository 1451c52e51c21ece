#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/placement/assignment.h"
#include "server/tuner/placement/solver.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

inline constexpr int kMaxPlacedJobs = 100;
inline constexpr int kMaxPlacedClusters = 20;

// A job as it is stated, without model and workload, which `question` has. The mistakes are those
// of the question's text, with the paths that `tune` gives them.
struct StatedJob {
  v1::PlacementJob job = {};
  v1::TuneRequest question = {};
  std::vector<FieldViolation> question_violations = {};
  bool is_object = true;  // false: nothing of it could be read
};

// A cluster with the mistakes of its text, whose paths begin with "cluster".
struct StatedCluster {
  v1::Cluster cluster = {};
  std::vector<FieldViolation> violations = {};
  bool is_readable = true;  // false: nothing of it could be read
};

// A placement as a message or files state it.
struct StatedPlacement {
  std::vector<StatedJob> jobs = {};
  std::vector<StatedCluster> clusters = {};
  std::vector<FieldViolation> violations = {};  // of all that has no place above
  std::optional<std::string> objective = {};
  std::optional<std::string> solver = {};
  std::optional<double> solver_seconds = {};
};

StatedPlacement StatedIn(const v1::PlaceJobsRequest& request);

// The request that states the same. Without mistakes only.
v1::PlaceJobsRequest RequestOf(const StatedPlacement& stated);

// A cluster of a placement: as it is stated, and with all its facts.
struct PlacementCluster {
  v1::Cluster stated = {};
  ClusterSpec spec = {};
};

// A placement without a mistake.
struct PlacementQuestion {
  std::vector<StatedJob> jobs = {};
  std::vector<PlacementCluster> clusters = {};
  PlacementObjective objective = PlacementObjective::kThroughput;
  std::optional<SolverKind> solver = {};  // absent: auto
  Seconds solver_seconds = Seconds(60);   // of CBC and GLPK for each program
};

// Finds the mistakes of all jobs and clusters; INVALID_ARGUMENT names every bad field.
absl::StatusOr<PlacementQuestion> CheckPlacement(StatedPlacement stated,
                                                 const Knowledge& knowledge);

}  // namespace meshwright
