#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// Turns the plans of one study into jobs.
struct JobPlanner {
  const JobTemplate& job;
  const Problem& problem;
  std::string workloads_folder = {};  // holds harness.py and train_step.py on the nodes
};

// Makes the planner of a request that ReadJob has accepted. INVALID_ARGUMENT names every field that
// the launcher or the question does not allow.
absl::StatusOr<JobPlanner> MakeJobPlanner(const TrialRequest& trials, const Problem& problem);

// Checks that every flag that the command asks for can be stated for the plan.
absl::Status CheckExpressible(const JobPlanner& planner, const ParallelPlan& plan);

// Makes the job of an attempt, which runs the harness around the command. Writes the plan's case,
// `case_text`, to <folder>/<attempt>.case.json, where the job reads it.
absl::StatusOr<JobSpec> MakeJobSpec(const JobPlanner& planner, const ParallelPlan& plan,
                                    const OpenAttempt& attempt, const std::string& case_text);

}  // namespace meshwright
