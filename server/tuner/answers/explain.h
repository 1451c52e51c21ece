#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// What a tenth more or less of a resource would change.
struct Sensitivity {
  std::string_view resource = {};       // "compute", "memory_capacity", ...
  double change = 0;                    // +0.1 or -0.1
  RankedPlan same = {};                 // the explained plan there
  std::optional<RankedPlan> best = {};  // the best plan there; nothing when none fits
};

// A plan that lost, and why.
struct NearMiss {
  RankedPlan plan = {};
  std::string reason = {};
};

struct Explanation {
  RankedPlan plan = {};  // what is explained
  RankedPlan best = {};  // of the space
  // The resource of which a tenth more would gain most; empty when none gains anything.
  std::string binding = {};
  std::vector<Sensitivity> sensitivities = {};
  std::vector<NearMiss> near_misses = {};
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
  std::vector<std::string> model_lines = {};          // what a vendor's model says of `plan`
};

// Why the best plan of a question is best, or why its baseline is not, when one is stated: searches
// again with a tenth more and less of each resource of the cluster, and once with room for
// everything. By a vendor's model the best plan, those that lost and their times are its own, and
// `model_lines` its words; what resources would change is left out, as it was asked about one
// cluster.
// NO_FEASIBLE_PLAN when nothing fits.
absl::StatusOr<Explanation> Explain(const StudyRequest& request, const Knowledge& knowledge,
                                    const StudyControl& control);

}  // namespace meshwright
