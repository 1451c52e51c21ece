#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/learning/run_residuals.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// A measured run that came to no step.
struct FailedRun {
  ParallelPlan plan = {};  // with its split of layers
  Outcome outcome = Outcome::kOom;
  Bytes reserved_memory = {};  // by this model, uncalibrated
  Bytes memory_capacity = {};  // of the devices that it ran on
  std::string job = {};        // name of the model, if the run is of another job; else empty
  auto operator<=>(const FailedRun&) const = default;
};

// What measured runs have taught: factors on the model's step time and peak memory. Memory has one
// for all plans, since more recomputation must never raise it (pruner/rules/recompute.cc); time has
// one more for each plan, which depends on its PlanPoint alone.
struct Calibration {
  double time_ratio = 1;
  double memory_ratio = 1;
  FittedResiduals time = {};    // what `time_ratio` and the plans' factors were taken from
  FittedResiduals memory = {};  // the same of `memory_ratio`
  // The job's own runs contradict other jobs', which teach nothing of it then.
  bool leaves_out_other_times = false;
  bool leaves_out_other_memory = false;
  // The smallest by this model that ran out of memory on such chips: none of its size is expected
  // to fit devices with no more memory.
  std::optional<FailedRun> out_of_memory = {};
  // Plans of the question's own job that failed and never ran, in canonical order.
  std::vector<FailedRun> failed = {};
  std::vector<std::string> warnings = {};  // whose runs were used, and how alike they are
};

// No plan's time factor is below.
double LeastTimeRatio(const Calibration& calibration);

}  // namespace meshwright
