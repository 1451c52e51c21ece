#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

struct Progress {
  std::string phase = {};
  std::int64_t space_count = 0;
  std::int64_t considered_count = 0;  // evaluated or pruned
  std::int64_t evaluated_count = 0;
  std::int64_t limit_count = 0;  // of considered plans, after which the phase ends; 0: none
  std::optional<Seconds> best_step_time = {};
  std::string job_status = {};  // status of the running job, in its engine's words
};

struct TrialJournal;  // trial_journal.h

// Callbacks and sources of a running study, used to watch it, stop it and let it learn from more
// runs. `on_progress` is called on the study's thread, at most every 100 ms.
struct StudyControl {
  std::stop_token cancel = {};
  // Requested together with `cancel` if the process ends; jobs that outlive it are left to the next
  // one.
  std::stop_token leave = {};
  std::function<void(const Progress&)> on_progress = {};
  const TrialJournal* trials = nullptr;  // null: trials are kept in the answer only
  HistorySource history = {};
  // Prints a question and a plan as one case of `evaluate` in JSON, which a job may read. Used by
  // launchers of jobs.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
  OpenPlanModel open_model = {};  // empty: there are no vendors' models
};

}  // namespace meshwright
