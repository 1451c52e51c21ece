#include "server/launchers/launchers.h"

#include <utility>

#include "search_space/base/status.h"
#include "server/launchers/job_study.h"
#include "server/launchers/replay_launcher.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/trials/trial_study.h"

namespace meshwright {
namespace {

absl::StatusOr<StudyAnswer> Replay(const ResolvedStudy& study, const Knowledge& knowledge,
                                   const StudyControl& control) {
  RETURN_IF_ERROR(RefuseOpenSettings(study.request));
  ReplayLauncher launcher(study);
  ASSIGN_OR_RETURN(PreparedQuestion question, Prepare(study, knowledge, control.history));
  return RunTrialStudy(std::move(question), {.candidates = launcher.Plans()}, launcher, control);
}

}  // namespace

absl::StatusOr<StudyAnswer> RunStudyWithTrials(const ResolvedStudy& study,
                                               const Knowledge& knowledge,
                                               const StudyControl& control) {
  const std::optional<TrialRequest>& trials = study.request.trials;
  if (!trials.has_value()) return RunStudy(study, knowledge, control);
  return RunsJobs(trials->launcher) ? RunJobStudy(study, knowledge, control)
                                    : Replay(study, knowledge, control);
}

}  // namespace meshwright
