#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/local/local_engine.h"
#include "server/tuner/question/job_template.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/attempt_journal.h"

namespace meshwright {

// How the plans of one study become jobs.
struct JobPlanner {
  const JobTemplate& job;
  const Problem& problem;
  std::string workloads_folder = {};  // of harness.py and train_step.py, on the nodes
};

// The planner of a request that ReadJob let pass. INVALID_ARGUMENT names every field that the
// launcher or the question does not allow.
absl::StatusOr<JobPlanner> MakeJobPlanner(const TrialRequest& trials, const Problem& problem);

// What launcher local runs the jobs of such a request with, on a machine of so many devices.
LocalEngineOptions LocalOptionsOf(const JobTemplate& job, int device_count);

// Whether every flag that the command asks for can be stated of the plan.
absl::Status CheckExpressible(const JobPlanner& planner, const ParallelPlan& plan);

// The job of an attempt: the harness around the command. Writes what it reads, `case_text`, to
// <folder>/<attempt>.case.json.
absl::StatusOr<JobSpec> MakeJobSpec(const JobPlanner& planner, const ParallelPlan& plan,
                                    const OpenAttempt& attempt, const std::string& case_text);

}  // namespace meshwright
