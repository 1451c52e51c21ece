#pragma once

#include <vector>

#include "estimator/learning/uncertainty.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the settings of the framework that a search of this question turns on by itself
// (docs/choice.md): those with a flag that published runs on the question's chip had. Empty if the
// times are a vendor's model's, if the strategy proves nothing, or if the chips differ.
std::vector<WorkloadSetting> SettingsToTurnOn(const PreparedQuestion& question);

// Prices the plans of one question with some of the framework's switches on, or as the framework
// has them. With them no plan is slower by the model, and each needs as much memory. So the best
// plans with them on are the best of both kinds, and one search finds them.
class SwitchedPlans {
 public:
  // `question` outlives it.
  SwitchedPlans(const PreparedQuestion& question, std::vector<WorkloadSetting> settings);

  SwitchedPlans(const SwitchedPlans&) = delete;
  SwitchedPlans& operator=(const SwitchedPlans&) = delete;
  ~SwitchedPlans() = default;

  // Returns the question with the switches on.
  [[nodiscard]] const PreparedQuestion& question() const { return switched_; }
  [[nodiscard]] bool has_switches() const { return !settings_.empty(); }

  // Returns the plan with the switches on, or without them if they have no effect on it.
  RankedPlan Fastest(const ParallelPlan& plan);
  // Returns the plan with the switches on if it can be told apart so from the plan without them, or
  // else without them.
  RankedPlan Usual(const ParallelPlan& plan);
  // Returns the plan as the framework has it.
  RankedPlan Plain(const ParallelPlan& plan);
  // Returns the uncertainty of a plan that this object has priced.
  TimeUncertainty UncertaintyOf(const RankedPlan& ranked);

  // Says in an answer what the settings of its first plan gain, and what others would gain that a
  // search does not turn on by itself. Fills the exports of plans with settings.
  void Note(StudyResult& result);

 private:
  RankedPlan Switched(const ParallelPlan& plan);
  void NoteGain(StudyResult& result);
  void NoteOthers(StudyResult& result);

  const PreparedQuestion& plain_;
  std::vector<WorkloadSetting> settings_;
  PreparedQuestion switched_;
  AnalyticModel plain_model_;
  AnalyticModel switched_model_;
};

}  // namespace meshwright
