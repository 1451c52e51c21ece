#include "cli/local/embedded_study.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "cli/program/interrupt.h"
#include "cli/program/terminal.h"
#include "cli/reports/progress_line.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/engine/engine_options.h"
#include "server/engine/stored_trials.h"
#include "server/engine/study_record.h"
#include "server/engine/wall_clock.h"
#include "server/launchers/launchers.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"

namespace meshwright {
namespace {

// The ending of a study, and its record after that.
struct Ended {
  StudyEnding ending = {};
  std::optional<CalibrationRecord> calibration = {};
  StudyRecord record = {};
};

Ended EndedBy(const absl::StatusOr<StudyAnswer>& answer, StudyRecord record,
              const Knowledge& knowledge) {
  const StudyCodec codec = ProtobufCodec(knowledge);
  const StudyEnding ending = EndingOf(record.id, answer, codec, NowMs());
  record.state = ending.state;
  record.outcome = ending.outcome;
  record.result = ending.result;
  record.error_message = ending.error_message;
  record.search_time = ending.search_time;
  record.best_step_time = ending.best_step_time;
  record.gain_over_baseline = ending.gain_over_baseline;
  record.best_plan_digest = ending.best_plan_digest;
  return {.ending = ending,
          .calibration = CalibrationOf(answer, codec, NowMs()),
          .record = std::move(record)};
}

absl::Status Keep(const Ended& ended, const LocalSite& site) {
  return EndLocalStudy(site.store, ended.ending, ended.calibration).status();
}

v1::GetStudyResponse ToResponse(const absl::StatusOr<StudyAnswer>& answer,
                                const StudyRecord& record) {
  v1::GetStudyResponse response;
  *response.mutable_study() = ToWire(record);
  response.mutable_question()->ParseFromString(record.question);
  if (!answer.ok()) return response;
  if (const auto* result = std::get_if<StudyResult>(&*answer)) {
    *response.mutable_result() = ToWire(*result);
  } else {
    *response.mutable_infeasible() = ToWire(std::get<Infeasible>(*answer));
  }
  return response;
}

absl::StatusOr<StudyAnswer> Search(const LocalStudy& study, const LocalSite& site,
                                   const std::stop_token& cancel) {
  ProgressLine progress_line;
  StudyControl control = {
      .cancel = cancel,
      .on_progress = [&](const Progress& progress) { progress_line.Show(ToWire(progress)); },
      .history = study.history,
      .open_model = site.open_model};
  std::unique_ptr<StoredTrials> trials;
  if (study.asked.request.trials.has_value() && !site.store.empty()) {
    ASSIGN_OR_RETURN(trials, OpenLocalTrials(site.store, study, site.knowledge, cancel));
    control.trials = &trials->journal();
    control.print_case = PrintCase;
  }
  return RunStudyWithTrials(study.asked, site.knowledge, control);
}

}  // namespace

absl::StatusOr<StudyAnswer> RunLocalStudy(const LocalStudy& study, const LocalSite& site) {
  const Interrupt interrupt;
  return Search(study, site, interrupt.token());
}

// Trials may have left a job to be ended, and a replay answers with what it has; a search leaves
// nothing.
absl::StatusOr<StudyRecord> CancelLocalStudy(const LocalStudy& study, const LocalSite& site) {
  std::stop_source stop;
  stop.request_stop();
  absl::StatusOr<StudyAnswer> answer = absl::CancelledError("cancelled");
  if (study.asked.request.trials.has_value()) answer = Search(study, site, stop.get_token());
  if (!answer.ok() && !absl::IsCancelled(answer.status())) return answer.status();
  Ended ended = EndedBy(answer, study.record, site.knowledge);
  RETURN_IF_ERROR(Keep(ended, site));
  return std::move(ended.record);
}

int ConcludeLocalStudy(const absl::StatusOr<StudyAnswer>& answer, const LocalSite& site,
                       const StudyRecord& record) {
  const Ended ended = EndedBy(answer, record, site.knowledge);
  const bool is_kept = !record.id.empty();
  const absl::Status kept = is_kept ? Keep(ended, site) : absl::OkStatus();
  AnswerForm form = site.form;
  if (is_kept && kept.ok()) {
    form.notes.recorded = fmt::format("Study {0} is kept in {1} (meshwright history show {0}).",
                                      record.id, site.store);
  }
  const int exit_code = answer.ok() ? PrintAnswer(ToResponse(answer, ended.record), form)
                                    : Fail(answer.status(), form.output);
  // A failure of the answer comes first; here the answer is there and only its record is missing.
  return kept.ok() ? exit_code : Fail(kept, form.output);
}

}  // namespace meshwright
