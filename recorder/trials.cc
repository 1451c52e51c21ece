// The Recorder's calls for trials.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr char kTrialColumns[] =
    "study_id, number, plan_key, plan_digest, plan, expected_step_time_seconds, "
    "success_probability_ratio, state, outcome, step_time_seconds, peak_memory_bytes, "
    "device_seconds, start_time_ms, end_time_ms, measurement_sequence, purpose, "
    "(SELECT failure_class FROM attempts AS a WHERE a.study_id = trials.study_id AND "
    "a.trial_number = trials.number ORDER BY a.number DESC LIMIT 1), "
    "(SELECT message FROM attempts AS a WHERE a.study_id = trials.study_id AND "
    "a.trial_number = trials.number ORDER BY a.number DESC LIMIT 1)";

absl::StatusOr<TrialRecord> ReadRow(const Statement& row) {
  TrialRecord trial = {.study_id = row.Text(0),
                       .number = static_cast<int>(row.Integer(1)),
                       .plan_key = row.Text(2),
                       .plan_digest = row.Text(3),
                       .plan = row.Text(4),
                       .expected_step_time = Seconds(row.Real(5)),
                       .success_probability = row.Real(6),
                       .step_time = OptionalSeconds(row, 9),
                       .peak_memory = OptionalBytes(row, 10),
                       .device_time = Seconds(row.Real(11)),
                       .start_time_ms = row.Integer(12),
                       .end_time_ms = row.OptionalInteger(13),
                       .measurement_sequence = row.OptionalInteger(14),
                       .failure_class = row.Text(16),
                       .failure_message = row.Text(17)};
  const std::string whose = fmt::format("trial {} of study '{}'", trial.number, trial.study_id);
  ASSIGN_OR_RETURN(trial.state, ReadWord<TrialState>(row, 7, whose));
  ASSIGN_OR_RETURN(trial.purpose, ReadWord<TrialPurpose>(row, 15, whose));
  ASSIGN_OR_RETURN(trial.outcome, ReadOptionalWord<Outcome>(row, 8, whose));
  return trial;
}

// Stores a trial and returns its number.
absl::StatusOr<int> InsertTrial(Connection* connection, const TrialIntent& intent) {
  ASSIGN_OR_RETURN(Statement insert, Statement::Prepare(connection, R"sql(
INSERT INTO trials (study_id, number, plan_key, plan_digest, plan, expected_step_time_seconds,
                    success_probability_ratio, state, device_seconds, start_time_ms, purpose)
SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9
FROM trials WHERE study_id = ?1 RETURNING number)sql"));
  RETURN_IF_ERROR(insert.Bind(intent.study_id, intent.plan_key, intent.plan_digest,
                              Blob{intent.plan}, intent.expected_step_time.count(),
                              intent.success_probability, Word(TrialState::kOpen), intent.time_ms,
                              Word(intent.purpose)));
  const auto has_row = insert.Step();
  if (absl::IsAlreadyExists(has_row.status())) {
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "study '{}' has a trial of plan '{}' (digest '{}'); must be another plan",
                          intent.study_id, intent.plan_key, intent.plan_digest)),
                      "TRIAL_EXISTS");
  }
  if (!has_row.ok()) return has_row.status();
  const int number = static_cast<int>(insert.Integer(0));
  RETURN_IF_ERROR(insert.Run());
  return number;
}

absl::Status CheckBelongs(const TrialEnding& ending, const AttemptRecord& attempt) {
  const auto check = [](const auto& is, const auto& must_be, std::string_view what) {
    if (is == must_be) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} = '{}'; must be '{}'", what, is, must_be));
  };
  RETURN_IF_ERROR(check(attempt.study_id, ending.study_id, "attempt.study_id"));
  RETURN_IF_ERROR(check(attempt.trial_number, ending.trial_number, "attempt.trial_number"));
  for (const EventRecord& event : ending.events) {
    RETURN_IF_ERROR(check(event.study_id, ending.study_id, "event.study_id"));
  }
  if (!ending.measurement.has_value()) return absl::OkStatus();
  return check(ending.measurement->study_id.value_or(""), ending.study_id, "measurement.study_id");
}

bool IsSame(const TrialRecord& ended, const TrialEnding& ending) {
  return ended.outcome == ending.attempt.outcome && ended.step_time == ending.step_time &&
         ended.peak_memory == ending.peak_memory &&
         ended.measurement_sequence.has_value() == ending.measurement.has_value();
}

// Retracts the measurement of a trial that has run again.
absl::Status RetractFormer(Connection* connection, const TrialRecord& trial, std::int64_t time_ms) {
  if (!trial.measurement_sequence.has_value()) return absl::OkStatus();
  std::string id;
  {
    ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, R"sql(
SELECT id FROM measurements
WHERE sequence = ?1 AND id NOT IN (SELECT measurement_id FROM retractions))sql"));
    RETURN_IF_ERROR(query.Bind(*trial.measurement_sequence));
    ASSIGN_OR_RETURN(const bool is_there, query.Step());
    if (!is_there) return absl::OkStatus();
    id = query.Text(0);
  }
  return InsertRetraction(
      connection, id,
      {.time_ms = time_ms,
       .reason = fmt::format("trial {} of study {} has run again", trial.number, trial.study_id)});
}

absl::Status SetEnding(Connection* connection, const TrialRecord& before,
                       const TrialEnding& ending) {
  std::optional<std::int64_t> sequence;
  if (ending.measurement.has_value()) {
    ASSIGN_OR_RETURN(MeasurementWriter writer, MeasurementWriter::Prepare(connection));
    ASSIGN_OR_RETURN(sequence, writer.Insert(*ending.measurement));
    RETURN_IF_ERROR(RetractFormer(connection, before, ending.attempt.time_ms));
  }
  // A trial that was to run again and did not keeps its measurement.
  return Run(connection, R"sql(
UPDATE trials
SET state = ?3, outcome = ?4, step_time_seconds = ?5, peak_memory_bytes = ?6, end_time_ms = ?7,
    measurement_sequence = coalesce(?8, measurement_sequence),
    device_seconds = (SELECT sum(device_seconds) FROM attempts
                      WHERE study_id = ?1 AND trial_number = ?2)
WHERE study_id = ?1 AND number = ?2)sql",
             ending.study_id, ending.trial_number, Word(TrialState::kEnded),
             Word(ending.attempt.outcome), Count(ending.step_time), Count(ending.peak_memory),
             ending.attempt.time_ms, sequence);
}

// Returns the name of the list that a page token is bound to.
std::string ListName(const TrialFilter& filter, TrialOrder order) {
  std::string name = fmt::format(
      "trials/{}/{}/{}", order == TrialOrder::kNumber ? "number" : "fastest",
      OptionalWord(filter.state).value_or(""), OptionalWord(filter.outcome).value_or(""));
  if (filter.purpose.has_value()) name += fmt::format("/purpose={}", Word(*filter.purpose));
  if (filter.plan_digest.has_value()) name += fmt::format("/plan={}", *filter.plan_digest);
  return name + "/" + filter.study_id;
}

// Returns the condition of a list. The unary plus hides columns that must not lead from SQLite's
// planner, which does not know the distribution of the rows.
std::string Where(const TrialFilter& filter, TrialOrder order) {
  const bool by_number = order == TrialOrder::kNumber;
  std::string where = "WHERE study_id = ?1";
  if (!by_number) where += " AND step_time_seconds IS NOT NULL";
  if (filter.state.has_value()) {
    where += by_number && !filter.outcome.has_value() ? " AND state = ?2" : " AND +state = ?2";
  }
  if (filter.outcome.has_value()) {
    where += by_number ? " AND outcome = ?3" : " AND +outcome = ?3";
  }
  if (filter.purpose.has_value()) where += " AND +purpose = ?6";
  if (filter.plan_digest.has_value()) {
    where += by_number ? " AND plan_digest = ?7" : " AND +plan_digest = ?7";
  }
  return where;
}

// Returns the step time of a token's row; its digits keep every bit.
double StepTimeOf(const PageKey& key) {
  double seconds = 0;
  std::from_chars(key.text.data(), key.text.data() + key.text.size(), seconds);
  return seconds;
}

}  // namespace

namespace {

absl::StatusOr<Statement> PrepareTrial(Connection* connection) {
  return Statement::Prepare(
      connection,
      fmt::format("SELECT {} FROM trials WHERE study_id = ?1 AND number = ?2", kTrialColumns));
}

// Returns a trial by a statement of PrepareTrial. NOT_FOUND: UNKNOWN_TRIAL.
absl::StatusOr<TrialRecord> TrialOf(Statement& query, std::string_view study_id, int number) {
  RETURN_IF_ERROR(query.Bind(study_id, number));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (is_there) return ReadRow(query);
  return WithReason(
      absl::NotFoundError(fmt::format("trial {} of study '{}' does not exist", number, study_id)),
      "UNKNOWN_TRIAL");
}

}  // namespace

absl::StatusOr<TrialRecord> ReadTrial(Connection* connection, std::string_view study_id,
                                      int number) {
  ASSIGN_OR_RETURN(Statement query, PrepareTrial(connection));
  return TrialOf(query, study_id, number);
}

namespace {

// A measured trial as a point.
struct Point {
  double step_time = 0;
  std::int64_t peak_memory = 0;
};

// Decides for one trial after the other, by growing step time and then memory, if it is beaten by
// one before it. Trials with the same figures do not beat each other.
class Front {
 public:
  explicit Front(std::optional<Point> last) : last_(last) {}

  bool Takes(const Point& point) {
    if (last_.has_value()) {
      const bool is_equal =
          point.step_time == last_->step_time && point.peak_memory == last_->peak_memory;
      if (!is_equal && point.peak_memory >= last_->peak_memory) return false;
    }
    last_ = point;
    return true;
  }

 private:
  std::optional<Point> last_;  // the newest point of the front, which has the least memory so far
};

// Returns the point of a trial that a page token names.
absl::StatusOr<Point> PointOf(Connection* connection, std::string_view study_id,
                              std::int64_t number) {
  ASSIGN_OR_RETURN(const TrialRecord trial,
                   ReadTrial(connection, study_id, static_cast<int>(number)));
  if (!trial.step_time.has_value() || !trial.peak_memory.has_value()) {
    return absl::DataLossError(
        fmt::format("trial {} of study '{}' has lost its figures", number, study_id));
  }
  return Point{.step_time = trial.step_time->count(), .peak_memory = trial.peak_memory->count};
}

// Returns the numbers of the next trials of the front after a point, at most `limit`.
absl::StatusOr<std::vector<int>> FrontNumbers(Connection* connection, std::string_view study_id,
                                              std::optional<Point> after, std::int64_t number,
                                              int limit) {
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(
          connection,
          fmt::format(
              "SELECT number, step_time_seconds, peak_memory_bytes FROM trials WHERE study_id = ?1 "
              "AND step_time_seconds IS NOT NULL AND peak_memory_bytes IS NOT NULL {} ORDER BY "
              "step_time_seconds, peak_memory_bytes, number",
              after.has_value() ? "AND (step_time_seconds, peak_memory_bytes, number) > (?2, ?3, "
                                  "?4)"
                                : "")));
  RETURN_IF_ERROR(after.has_value()
                      ? query.Bind(study_id, after->step_time, after->peak_memory, number)
                      : query.Bind(study_id));
  Front front(after);
  std::vector<int> numbers;
  while (std::ssize(numbers) < limit) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) break;
    if (front.Takes({.step_time = query.Real(1), .peak_memory = query.Integer(2)})) {
      numbers.push_back(static_cast<int>(query.Integer(0)));
    }
  }
  return numbers;
}

}  // namespace

absl::StatusOr<TrialRecord> Recorder::GetTrial(std::string_view study_id, int number) const {
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  return ReadTrial(connection_.get(), study_id, number);
}

absl::StatusOr<BegunTrial> Recorder::BeginTrial(const TrialIntent& intent) {
  if (intent.plan_digest.empty()) {
    return absl::InvalidArgumentError("plan_digest = ''; must not be empty");
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(CheckStudyLives(connection_.get(), intent.study_id));
  ASSIGN_OR_RETURN(const int number, InsertTrial(connection_.get(), intent));
  ASSIGN_OR_RETURN(AttemptRecord attempt,
                   InsertAttempt(connection_.get(), {.study_id = intent.study_id,
                                                     .trial_number = number,
                                                     .launcher = intent.launcher,
                                                     .time_ms = intent.time_ms}));
  ASSIGN_OR_RETURN(TrialRecord trial, ReadTrial(connection_.get(), intent.study_id, number));
  RETURN_IF_ERROR(transaction.Commit());
  return BegunTrial{.trial = std::move(trial), .attempt = std::move(attempt)};
}

absl::StatusOr<EndedTrial> Recorder::FinishTrial(const TrialEnding& ending) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const AttemptRecord attempt,
                   ReadAttempt(connection_.get(), ending.attempt.attempt_id));
  RETURN_IF_ERROR(CheckBelongs(ending, attempt));
  ASSIGN_OR_RETURN(TrialRecord trial,
                   ReadTrial(connection_.get(), ending.study_id, ending.trial_number));
  RETURN_IF_ERROR(EndAttempt(connection_.get(), ending.attempt).status());
  if (trial.state == TrialState::kEnded) {
    if (IsSame(trial, ending)) return EndedTrial{.trial = std::move(trial), .is_new = false};
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("trial {} of study '{}' has ended otherwise ({})",
                                      trial.number, trial.study_id, Word(*trial.outcome))),
                      "TRIAL_ENDED");
  }
  RETURN_IF_ERROR(SetEnding(connection_.get(), trial, ending));
  EndedTrial ended;
  ASSIGN_OR_RETURN(ended.revisions, InsertEvents(connection_.get(), ending.events));
  ASSIGN_OR_RETURN(ended.trial, ReadTrial(connection_.get(), ending.study_id, ending.trial_number));
  RETURN_IF_ERROR(transaction.Commit());
  return ended;
}

absl::StatusOr<TrialPage> Recorder::ListTrials(const TrialFilter& filter, TrialOrder order,
                                               int page_size, std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const bool by_number = order == TrialOrder::kNumber;
  const std::string list = ListName(filter, order);
  std::string where = Where(filter, order);
  PageKey after;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    where += by_number ? " AND number > ?4" : " AND (step_time_seconds, number) > (?5, ?4)";
  }
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), filter.study_id));
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection_.get(),
                         fmt::format("SELECT {} FROM trials {} ORDER BY {} LIMIT ?8", kTrialColumns,
                                     where, by_number ? "number" : "step_time_seconds, number")));
  RETURN_IF_ERROR(query.Bind(filter.study_id, OptionalWord(filter.state),
                             OptionalWord(filter.outcome), after.number, StepTimeOf(after),
                             OptionalWord(filter.purpose), filter.plan_digest, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<TrialRecord>(query, size, ReadRow));
  TrialPage page = {.trials = std::move(rows.records)};
  if (!rows.has_more) return page;
  const TrialRecord& last = page.trials.back();
  page.next_page_token = EncodePageToken(
      list,
      {.number = last.number,
       .text = last.step_time.has_value() ? fmt::format("{:.17g}", last.step_time->count()) : ""});
  return page;
}

absl::StatusOr<TrialPage> Recorder::ListParetoTrials(std::string_view study_id, int page_size,
                                                     std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const std::string list = fmt::format("pareto_trials/{}", study_id);
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  PageKey after;
  std::optional<Point> last;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    ASSIGN_OR_RETURN(last, PointOf(connection_.get(), study_id, after.number));
  }
  ASSIGN_OR_RETURN(const std::vector<int> numbers,
                   FrontNumbers(connection_.get(), study_id, last, after.number, size + 1));
  ASSIGN_OR_RETURN(Statement query, PrepareTrial(connection_.get()));
  TrialPage page;
  for (const int number : numbers) {
    if (std::ssize(page.trials) == size) {
      page.next_page_token = EncodePageToken(list, {.number = page.trials.back().number});
      break;
    }
    ASSIGN_OR_RETURN(TrialRecord trial, TrialOf(query, study_id, number));
    page.trials.push_back(std::move(trial));
  }
  return page;
}

}  // namespace meshwright
