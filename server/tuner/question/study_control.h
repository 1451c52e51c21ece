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
  std::optional<Seconds> best_step_time = {};
  std::string job_status = {};  // of the job that runs, in its engine's words
};

struct TrialJournal;  // trial_journal.h

// How a running study is watched and stopped, and what else it may learn from. `on_progress` is
// called on the study's thread, at most every 100 ms.
struct StudyControl {
  std::stop_token cancel = {};
  // With `cancel`: the process ends, and jobs that outlive it are left to the next one.
  std::stop_token leave = {};
  std::function<void(const Progress&)> on_progress = {};
  const TrialJournal* trials = nullptr;  // none: trials are kept in the answer alone
  HistorySource history = {};
  // A question with a plan as one case of `evaluate`, JSON: what a job may read. For launchers of
  // jobs.
  std::function<std::string(const Question&, const ParallelPlan&)> print_case = {};
  OpenPlanModel open_model = {};  // none: there are no vendors' models here
};

}  // namespace meshwright
