#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "estimator/learning/run_residuals.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The figures of a job that learning needs beside the measured ones: those of the model without
// history of such jobs, and texts by which nodes and plans are told apart.
struct ModelledJob {
  Seconds step_time = Seconds(0);
  Bytes peak_memory = {};
  Bytes reserved_memory = {};
  std::size_t fullest_pool = 0;  // index of the pool whose devices have least memory left
  PlanPoint point = {};
  std::string nodes = {};  // equal for clusters of the same nodes, however many
  std::string plan_key = {};
};

// The problem of a question and a plan that is legal for it.
struct ResolvedJob {
  std::shared_ptr<const Problem> problem = {};
  ParallelPlan plan = {};
  // Known in advance if the job is learnt from again and again; absent: not modelled yet.
  std::shared_ptr<const ModelledJob> modelled = {};
};

// A measured run whose job and plan are resolved. Everything that learns from runs takes this type.
// Runs of one question share their problems.
struct ResolvedRun {
  // Problem stated by the run's own question.
  std::shared_ptr<const Problem> stated = {};
  // Problem that the run is compared with: `stated` with the framework facts of the question that
  // is being answered. Otherwise a run from which these facts were fitted would count twice.
  std::shared_ptr<const Problem> problem = {};
  ParallelPlan plan = {};                            // a plan for `problem`
  std::shared_ptr<const ModelledJob> modelled = {};  // of both; absent: not modelled yet
  bool is_by_own_facts =
      false;                 // the question's facts do not allow the plan: `problem` is `stated`
  bool is_same_job = false;  // `problem` is the job of the question that is answered
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};
  std::optional<Bytes> peak_memory = {};
  std::string measurement_id =
      {};  // id in the store that it was read from; empty: the request's own
};

}  // namespace meshwright
