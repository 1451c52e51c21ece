#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {

// The effect of ten per cent more or less of a resource.
struct Sensitivity {
  std::string_view resource = {};       // "compute", "memory_capacity", ...
  double change = 0;                    // +0.1 or -0.1
  RankedPlan same = {};                 // the explained plan with that change
  std::optional<RankedPlan> best = {};  // the fastest plan with that change; absent: none fits
};

// A plan that lost, and the reason.
struct NearMiss {
  RankedPlan plan = {};
  std::string reason = {};
};

struct Explanation {
  RankedPlan plan = {};  // the explained plan
  // The fastest plan of the space among those that fit with the request's least probability, or
  // of all that fit if none does. The plan to launch may be one that cannot be told apart from it.
  RankedPlan best = {};
  RankedPlan launch = {};                             // plans.front() of RunStudy's answer
  std::optional<Recommendation> recommendation = {};  // and its recommendation
  // Resource of which ten per cent more would gain most; empty if none gains anything.
  std::string binding = {};
  std::vector<Sensitivity> sensitivities = {};
  std::vector<NearMiss> near_misses = {};
  std::vector<AppliedDefault> applied_defaults = {};
  std::vector<std::string> warnings = {};
  std::optional<CalibrationReport> calibration = {};  // absent: nothing was learnt
  std::vector<std::string> model_lines = {};          // a vendor's model's words about `plan`
};

// Explains the plan that RunStudy would launch, or the baseline if one is stated: what makes its
// step as long as it is, why others lost, and how ten per cent more or less of each resource of the
// cluster would change it. All best plans are those that fit with the request's least probability,
// if any plan does. With a vendor's model, the best plan, the losing plans and their times are the
// model's, and `model_lines` has its words. The effects of resources are then left out, as the
// model was asked about one cluster only. Returns NO_FEASIBLE_PLAN if nothing fits.
absl::StatusOr<Explanation> Explain(ResolvedStudy study, const Knowledge& knowledge,
                                    const StudyControl& control);

}  // namespace meshwright
