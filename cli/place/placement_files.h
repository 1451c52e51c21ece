#pragma once

#include <string>
#include <vector>

#include "cli/program/field_names.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"

namespace meshwright {

inline constexpr int kMaxPlacedJobs = 100;
inline constexpr int kMaxPlacedClusters = 20;

// A job as its file states it, without model and workload, which `question` has. The mistakes are
// those of the question, with the paths that `tune` gives them.
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
  bool is_readable = true;  // false: it is neither an object nor a path
};

struct PlacementFiles {
  std::vector<StatedJob> jobs = {};
  std::vector<StatedCluster> clusters = {};
  std::vector<FieldViolation> violations = {};  // all others: "jobs[0].weight"
  FieldNames names = {};
  std::vector<std::string> notes = {};  // on how models were read, for people
};

// Reads the files of `place`: {"jobs": [...]} and {"clusters": [...]}, or only the lists, as JSON
// or YAML. A path in a file starts from the folder of that file. Reads everything even if a part of
// it is wrong.
PlacementFiles ReadPlacementFiles(const std::string& jobs, const std::string& clusters);

}  // namespace meshwright
