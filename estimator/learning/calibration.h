#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/learning/normal.h"
#include "estimator/learning/run_residuals.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// A measured run that completed no step.
struct FailedRun {
  ParallelPlan plan = {};  // with its split of layers
  Outcome outcome = Outcome::kOom;
  Bytes reserved_memory = {};  // modelled, uncalibrated
  Bytes memory_capacity = {};  // capacity of the devices that it ran on
  std::string job = {};        // name of the model, if the run is of another job; else empty
  auto operator<=>(const FailedRun&) const = default;
};

// The lessons of measured runs that used only one kind of chips. They hold for the stages of a
// mixed plan that lie on them: everything that such a stage does by itself takes `time_ratio` times
// as long as modelled, and needs `memory_ratio` times the memory.
struct ChipLesson {
  std::string chip = {};  // id
  double time_ratio = 1;
  double memory_ratio = 1;
  std::optional<FailedRun> out_of_memory = {};  // as in Calibration
};

// The lessons of measured runs: factors on the model's step time and peak memory. Memory has one
// factor for all plans, because more recomputation must never raise it (pruner/rules/recompute.cc).
// Time has another factor for each plan, which depends only on its PlanPoint.
struct Calibration {
  double time_ratio = 1;
  double memory_ratio = 1;
  // One for each kind of chips of a cluster that has several; the other factors are then those of
  // whole plans that mix them.
  std::vector<ChipLesson> chips = {};
  FittedResiduals time = {};    // source of `time_ratio` and of the plans' factors
  FittedResiduals memory = {};  // source of `memory_ratio`
  // The logarithm of a plan's memory relative to the modelled one, if runs of the job that ran out
  // of memory have moved it; then the source of `memory_ratio`.
  std::optional<Normal> bounded_memory = {};
  // The job's own runs contradict those of other jobs, which are left out.
  bool leaves_out_other_times = false;
  bool leaves_out_other_memory = false;
  // The smallest run, by this model, that ran out of memory on such chips: no plan of its size is
  // expected to fit devices with the same memory or less.
  std::optional<FailedRun> out_of_memory = {};
  // Runs of the question's own job whose plans failed and never ran, in canonical order.
  std::vector<FailedRun> failed = {};
  std::vector<std::string> warnings = {};  // name the jobs whose runs were used, and their likeness
};

// Returns the lesson of a chip, or null if there is none.
const ChipLesson* LessonOf(const Calibration& calibration, std::string_view chip);

// Returns a lower bound of the time factors of all plans, without those of their stages.
double LeastTimeRatio(const Calibration& calibration);

}  // namespace meshwright
