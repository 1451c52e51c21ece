#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "cli/program/program.h"
#include "cli/reports/tune_report.h"
#include "meshwright/v1/service.pb.h"
#include "server/rpc/client/client.h"

namespace meshwright {

// Returns how a study ended as the status that an embedded search would have returned: OK with a
// result, even if the deadline cut the search; NO_FEASIBLE_PLAN, CANCELLED, or the failure.
absl::Status EndingStatus(const v1::GetStudyResponse& answer);

// The way in which a command shows the answer of a study.
struct AnswerForm {
  OutputForm output = OutputForm::kTable;
  ReportNotes notes = {};
  std::string save_folder = {};  // empty: no files are written
};

// Returns the form that the flags ask for, without files.
AnswerForm FormOf(const GlobalFlags& flags);

// Prints the answer of a study that has ended, and its error if there is one; returns the exit
// code. Every `tune` answer is printed here, so that embedded and served ones are equal byte for
// byte: but for the study's id and the seconds of the search, the JSON holds nothing that depends
// on where the search ran.
int PrintAnswer(const v1::GetStudyResponse& answer, const AnswerForm& form);

// Calls `sink` with each event from the first one until the study has ended or `cancel` is
// requested (CANCELLED). It survives restarts of the server, network failures, and being dropped as
// a watcher that reads too slowly.
absl::Status FollowStudy(Client& client, const std::string& study_id,
                         const std::function<void(const v1::WatchStudyResponse&)>& sink,
                         const std::stop_token& cancel);

}  // namespace meshwright
