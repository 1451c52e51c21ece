// Runs failed trials of a study again: opens them, and takes the study's answer away.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Returns the numbers of the failed trials of a study's search by the class with which their newest
// attempt ended.
absl::StatusOr<std::map<std::string, std::vector<int>>> FailedByClass(Connection* connection,
                                                                      const std::string& study_id) {
  ASSIGN_OR_RETURN(Statement list, Statement::Prepare(connection, R"sql(
SELECT number,
       (SELECT failure_class FROM attempts AS a
        WHERE a.study_id = trials.study_id AND a.trial_number = trials.number
        ORDER BY a.number DESC LIMIT 1)
FROM trials WHERE study_id = ?1 AND state = ?2 AND purpose = ?3 AND outcome <> ?4
ORDER BY number)sql"));
  RETURN_IF_ERROR(list.Bind(study_id, Word(TrialState::kEnded), Word(TrialPurpose::kSearch),
                            Word(Outcome::kOk)));
  std::map<std::string, std::vector<int>> failed;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, list.Step());
    if (!has_row) break;
    failed[list.Text(1)].push_back(static_cast<int>(list.Integer(0)));
  }
  return failed;
}

// Returns the numbers of the trials that a request names by their classes, in ascending order.
absl::StatusOr<std::vector<int>> NumbersOfClasses(Connection* connection,
                                                  const StudyReopening& reopening) {
  ASSIGN_OR_RETURN(const auto failed, FailedByClass(connection, reopening.study_id));
  std::vector<int> numbers;
  for (const std::string& name : reopening.failure_classes) {
    const auto found = failed.find(name);
    if (found == failed.end()) {
      std::vector<std::string_view> known;
      for (const auto& [known_name, trials] : failed) known.push_back(known_name);
      return WithReason(
          absl::FailedPreconditionError(fmt::format(
              "study '{}' has no failed trial of the search of class '{}'; it has {}",
              reopening.study_id, name,
              known.empty() ? "none of any class" : fmt::format("{}", fmt::join(known, ", ")))),
          "NO_FAILED_TRIALS");
    }
    numbers.insert(numbers.end(), found->second.begin(), found->second.end());
  }
  std::ranges::sort(numbers);
  return numbers;
}

// Opens the failed trials of the search, all or those with the numbers, and returns their numbers.
absl::StatusOr<std::vector<int>> OpenFailed(Connection* connection, const std::string& study_id,
                                            const std::optional<std::string>& numbers) {
  ASSIGN_OR_RETURN(Statement open, Statement::Prepare(connection, R"sql(
UPDATE trials
SET state = ?2, outcome = NULL, step_time_seconds = NULL, peak_memory_bytes = NULL,
    end_time_ms = NULL
WHERE study_id = ?1 AND state = ?3 AND purpose = ?4 AND outcome <> ?5
  AND (CAST(?6 AS TEXT) IS NULL
       OR number IN (SELECT CAST(value AS INTEGER) FROM json_each(?6)))
RETURNING number)sql"));
  RETURN_IF_ERROR(open.Bind(study_id, Word(TrialState::kOpen), Word(TrialState::kEnded),
                            Word(TrialPurpose::kSearch), Word(Outcome::kOk), numbers));
  std::vector<int> opened;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, open.Step());
    if (!has_row) break;
    opened.push_back(static_cast<int>(open.Integer(0)));
  }
  std::ranges::sort(opened);
  return opened;
}

// Returns why one of the trials cannot run again.
absl::Status CheckFailed(Connection* connection, const StudyReopening& reopening) {
  for (const int number : reopening.trial_numbers) {
    ASSIGN_OR_RETURN(const TrialRecord trial, ReadTrial(connection, reopening.study_id, number));
    std::string why;
    if (trial.state != TrialState::kEnded) {
      why = "has not ended";
    } else if (trial.outcome == Outcome::kOk) {
      why = "has ended well (ok)";
    } else if (trial.purpose != TrialPurpose::kSearch) {
      why = fmt::format("repeats another trial ({})", Word(trial.purpose));
    }
    if (why.empty()) continue;
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "trial {} of study '{}' {}; only failed trials of the search run again",
                          number, reopening.study_id, why)),
                      "TRIAL_NOT_FAILED");
  }
  return absl::OkStatus();
}

absl::Status TakeAnswerAway(Connection* connection, const StudyReopening& reopening) {
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE studies
SET state = ?2, owner = ?3, outcome = '', error_message = '', end_time_ms = NULL,
    search_seconds = NULL, best_step_time_seconds = NULL, gain_over_baseline_ratio = NULL,
    best_plan_digest = '', lease_expires_ms = NULL, pause_wanted = 0
WHERE id = ?1)sql",
                      reopening.study_id, Word(reopening.state), reopening.owner));
  RETURN_IF_ERROR(Run(connection, "UPDATE study_messages SET result = NULL WHERE study_id = ?1",
                      reopening.study_id));
  RETURN_IF_ERROR(Run(connection, "DELETE FROM plans WHERE study_id = ?1", reopening.study_id));
  const EventRecord event = {.study_id = reopening.study_id,
                             .time_ms = reopening.time_ms,
                             .kind = kStateEventKind,
                             .payload = std::string(Word(reopening.state))};
  return InsertEvents(connection, {&event, 1}).status();
}

bool IsAtRest(StudyState state) {
  return IsTerminal(state) || state == StudyState::kPaused || state == StudyState::kInterrupted;
}

}  // namespace

absl::StatusOr<ReopenedStudy> Recorder::ReopenStudy(const StudyReopening& reopening) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const StudyRecord before, GetStudy(reopening.study_id));
  if (!IsAtRest(before.state)) {
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "study '{}' is {}; trials run again only when it has ended or is paused",
                          before.id, Word(before.state))),
                      "STUDY_NOT_ENDED");
  }
  RETURN_IF_ERROR(CheckEdits(before, reopening.edit_count));
  RETURN_IF_ERROR(CheckFailed(connection_.get(), reopening));
  std::vector<int> stated = reopening.trial_numbers;
  if (!reopening.failure_classes.empty()) {
    ASSIGN_OR_RETURN(stated, NumbersOfClasses(connection_.get(), reopening));
  }
  std::optional<std::string> numbers;
  if (!stated.empty()) numbers = fmt::format("[{}]", fmt::join(stated, ","));
  ReopenedStudy reopened;
  ASSIGN_OR_RETURN(reopened.trial_numbers, OpenFailed(connection_.get(), before.id, numbers));
  if (reopened.trial_numbers.empty()) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("study '{}' has no failed trial of the search", before.id)),
                      "NO_FAILED_TRIALS");
  }
  RETURN_IF_ERROR(TakeAnswerAway(connection_.get(), reopening));
  ASSIGN_OR_RETURN(reopened.study, GetStudy(before.id));
  RETURN_IF_ERROR(transaction.Commit());
  return reopened;
}

}  // namespace meshwright
