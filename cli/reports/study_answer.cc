#include "cli/reports/study_answer.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "cli/program/answer_head.h"
#include "cli/program/exit_code.h"
#include "cli/program/terminal.h"
#include "cli/reports/csv_lists.h"
#include "cli/reports/print_answer.h"
#include "cli/reports/saved_answer.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/engine/study_record.h"
#include "server/process/exit_code.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

// Tries to reconnect: a restarting server answers within seconds.
constexpr int kReconnects = 10;
constexpr std::chrono::seconds kReconnectPause(1);

// Returns at once when `cancel` asks to stop.
void WaitToReconnect(const std::stop_token& cancel) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any nothing;
  nothing.wait_for(lock, cancel, kReconnectPause, [] { return false; });
}

absl::Status InfeasibleError(const v1::Infeasible& infeasible) {
  std::string message = infeasible.has_nearest()
                            ? fmt::format(
                                  "no plan fits: {} bytes a device are missing, and {} take most "
                                  "memory of the smallest plan",
                                  infeasible.missing_bytes(), infeasible.binding_memory_kind())
                            : "no plan is legal for this model, workload and cluster";
  for (const std::string& suggestion : infeasible.suggestions()) message += "; " + suggestion;
  return WithReason(absl::FailedPreconditionError(message), kNoFeasiblePlanReason);
}

// Returns true if the stream can be resumed: the server went away, or it dropped a slow watcher.
bool CanResume(const absl::Status& status) {
  return absl::IsUnavailable(status) || (absl::IsAborted(status) && Reason(status) == "RESYNC");
}

std::string AnswerJson(const v1::GetStudyResponse& answer, int exit_code) {
  const v1::AnswerHead head = HeadOf(exit_code, answer.study().id(), answer.question());
  v1::GetStudyResponse infeasible;
  if (answer.has_infeasible()) *infeasible.mutable_infeasible() = answer.infeasible();
  const google::protobuf::Message& own =
      answer.has_result() ? static_cast<const google::protobuf::Message&>(answer.result())
                          : infeasible;
  return WithHead(head, PrintJson(own, {.multiline = true})) + "\n";
}

std::string AnswerText(const v1::GetStudyResponse& answer, const AnswerForm& form, int exit_code) {
  switch (form.output) {
    case OutputForm::kTable:
      return StudyReport(ForTerminal(answer), form.notes);
    case OutputForm::kJson:
      return AnswerJson(answer, exit_code);
    case OutputForm::kCsv:
      return PlansCsv(ForTerminal(answer.result()));
  }
  return "";
}

}  // namespace

absl::Status EndingStatus(const v1::GetStudyResponse& answer) {
  const v1::Study& study = answer.study();
  if (answer.has_infeasible()) return InfeasibleError(answer.infeasible());
  if (study.state() == "cancelled") {
    return absl::CancelledError(answer.has_result() ? "cancelled; this is the best plan so far"
                                                    : "cancelled before a plan was found");
  }
  if (study.outcome() == "all_trials_failed") {
    return WithReason(absl::FailedPreconditionError(fmt::format("none of {} trials measured a step",
                                                                answer.result().trials_size())),
                      "ALL_TRIALS_FAILED");
  }
  if (answer.has_result()) return absl::OkStatus();
  if (const auto error = ParseErrorText(study.error_message())) return *error;
  // Earlier versions wrote only the message.
  if (study.outcome() == "deadline_cut") return absl::DeadlineExceededError(study.error_message());
  return absl::InternalError(study.error_message());
}

AnswerForm FormOf(const GlobalFlags& flags) {
  return {.output = flags.output, .notes = NotesForTerminal(flags)};
}

int PrintAnswer(const v1::GetStudyResponse& answer, const AnswerForm& form) {
  const absl::Status status = EndingStatus(answer);
  const bool has_report = answer.has_result() || answer.has_infeasible();
  const bool is_table = form.output == OutputForm::kTable;
  if (has_report) PrintData(AnswerText(answer, form, ExitCode(status)));
  if (has_report && !form.save_folder.empty()) {
    const std::string json = AnswerJson(answer, ExitCode(status));
    const absl::Status saved = SaveAnswer(form.save_folder, answer, json, form.notes);
    if (!saved.ok()) return Fail(saved, form.output);
  }
  // The report of an infeasible study is its error at length.
  const bool is_told = status.ok() || (is_table && answer.has_infeasible());
  return is_told ? ExitCode(status) : Fail(status, form.output);
}

absl::Status FollowStudy(Client& client, const std::string& study_id,
                         const std::function<void(const v1::WatchStudyResponse&)>& sink,
                         const std::stop_token& cancel) {
  v1::WatchStudyRequest request;
  request.set_study_id(study_id);
  const auto take = [&](const v1::WatchStudyResponse& event) {
    request.set_after_revision(std::max(request.after_revision(), event.revision()));
    sink(event);
    return true;
  };
  for (int attempt = 0;; ++attempt) {
    const std::int64_t seen = request.after_revision();
    absl::Status status = client.WatchStudy(request, take, {.cancel = cancel});
    if (cancel.stop_requested()) return absl::CancelledError("stopped watching");
    if (!CanResume(status)) return status;
    if (request.after_revision() > seen) attempt = 0;
    if (attempt == kReconnects) return status;
    WaitToReconnect(cancel);
  }
}

}  // namespace meshwright
