#pragma once

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/trial.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {

inline constexpr char kKillStudyId[] = "kill-study";

// Returns a study of fourteen trials from a table, including failures, and a run of an earlier job.
inline StudyRequest KillStudy(const Knowledge& knowledge) {
  StudyRequest request = {.question = TinyQuestion()};
  request.history = {{.question = TinyQuestion(),
                      .plan = {.tensor_parallel = 2, .pipeline_parallel = 2},
                      .step_time = Seconds(0.2)}};
  TrialRequest& trials = request.trials.emplace();
  trials.launcher = kReplayLauncher;
  trials.budget.trials = 14;
  int row = 0;
  for (const int tensor : {1, 2, 4}) {
    for (const int micro_batch : {1, 2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && tensor == 1) continue;
        const PlanRequest plan = {.tensor_parallel = tensor,
                                  .sequence_parallel = sequence_parallel,
                                  .micro_batch_size = micro_batch};
        const Seconds modelled =
            EvaluatePlan({.question = request.question, .plan = plan}, knowledge, {})
                .value()
                .step_time;
        MeasuredPlan& measured = trials.replay.emplace_back(MeasuredPlan{.plan = plan});
        ++row;
        if (row % 5 == 0) {
          measured.outcome = row % 2 == 0 ? Outcome::kOom : Outcome::kCrash;
          continue;
        }
        measured.step_time = modelled * (1 + 0.07 * (row % 4));
        measured.peak_memory = GiB(3.0 + row);
      }
    }
  }
  return request;
}

}  // namespace meshwright
