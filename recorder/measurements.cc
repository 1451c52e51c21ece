// The Recorder's calls for measurements and their retractions.
#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// The columns in the order in which ReadMeasurementRow reads them.
constexpr char kMeasurementColumns[] =
    "measurements.sequence, measurements.id, source, study_id, plan_key, plan_digest, plan, "
    "outcome, step_time_seconds, peak_memory_bytes, expected_step_time_seconds, "
    "expected_low_seconds, expected_high_seconds, expected_peak_memory_bytes, calibration_id, "
    "device_seconds, measurements.time_ms, request_id, request_hash, job_name, note, digest, "
    "questions.model_name, cluster_name, questions.chip, questions.framework, framework_version, "
    "device_count, questions.job_fingerprint, hardware_fingerprint, software_fingerprint, "
    "chip_fingerprint, retractions.sequence, retractions.time_ms, retractions.reason";
constexpr int kQuestionColumn = 21;
constexpr int kRetractionColumn = 32;
constexpr int kQuestionBytesColumn = 35;

// The tables of the columns; a condition on retractions may follow.
constexpr char kWithRetractions[] =
    "measurements JOIN questions ON questions.id = question_id "
    "LEFT JOIN retractions ON measurement_id = measurements.id";

std::string Select(std::string_view from_where) {
  return fmt::format("SELECT {} FROM {}", kMeasurementColumns, from_where);
}

std::string SelectWithQuestion(std::string_view where) {
  return fmt::format("SELECT {}, question FROM {} WHERE {}", kMeasurementColumns, kWithRetractions,
                     where);
}

QuestionRecord ReadQuestionColumns(const Statement& row, bool has_question) {
  const int first = kQuestionColumn;
  return {.digest = row.Text(first),
          .model_name = row.Text(first + 1),
          .cluster_name = row.Text(first + 2),
          .chip = row.Text(first + 3),
          .framework = row.Text(first + 4),
          .framework_version = row.Text(first + 5),
          .device_count = static_cast<int>(row.Integer(first + 6)),
          .job_fingerprint = row.Text(first + 7),
          .hardware_fingerprint = row.Text(first + 8),
          .software_fingerprint = row.Text(first + 9),
          .chip_fingerprint = row.Text(first + 10),
          .question = has_question ? row.Text(kQuestionBytesColumn) : ""};
}

std::optional<Retraction> ReadRetractionColumns(const Statement& row) {
  const auto sequence = row.OptionalInteger(kRetractionColumn);
  if (!sequence.has_value()) return std::nullopt;
  return Retraction{.sequence = *sequence,
                    .time_ms = row.Integer(kRetractionColumn + 1),
                    .reason = row.Text(kRetractionColumn + 2)};
}

absl::StatusOr<MeasurementRecord> ReadMeasurementRow(const Statement& row, bool has_question) {
  MeasurementRecord read = {.sequence = row.Integer(0),
                            .id = row.Text(1),
                            .question = ReadQuestionColumns(row, has_question),
                            .study_id = row.OptionalText(3),
                            .plan_key = row.Text(4),
                            .plan_digest = row.Text(5),
                            .plan = row.Text(6),
                            .step_time = OptionalSeconds(row, 8),
                            .peak_memory = OptionalBytes(row, 9),
                            .expected = {.step_time = OptionalSeconds(row, 10),
                                         .low = OptionalSeconds(row, 11),
                                         .high = OptionalSeconds(row, 12),
                                         .peak_memory = OptionalBytes(row, 13),
                                         .calibration_id = row.Text(14)},
                            .device_time = Seconds(row.Real(15)),
                            .time_ms = row.Integer(16),
                            .request_id = row.OptionalText(17),
                            .request_hash = row.Text(18),
                            .job_name = row.Text(19),
                            .note = row.Text(20),
                            .retraction = ReadRetractionColumns(row)};
  const std::string whose = fmt::format("measurement '{}'", read.id);
  ASSIGN_OR_RETURN(read.source, ReadWord<MeasurementSource>(row, 2, whose));
  ASSIGN_OR_RETURN(read.outcome, ReadWord<Outcome>(row, 7, whose));
  return read;
}

absl::Status UnknownMeasurement(std::string_view id) {
  return WithReason(absl::NotFoundError(fmt::format("measurement '{}' does not exist", id)),
                    "UNKNOWN_MEASUREMENT");
}

// Returns the measurement of the query's next row, if there is one.
absl::StatusOr<std::optional<MeasurementRecord>> ReadNext(Statement& query) {
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return std::nullopt;
  return ReadMeasurementRow(query, true);
}

// Stores measurements that may have a request_id.
class Inserter {
 public:
  static absl::StatusOr<Inserter> Prepare(Connection* connection) {
    ASSIGN_OR_RETURN(MeasurementWriter writer, MeasurementWriter::Prepare(connection));
    ASSIGN_OR_RETURN(MeasurementFinder finder, MeasurementFinder::Prepare(connection));
    ASSIGN_OR_RETURN(Statement by_request,
                     Statement::Prepare(connection, SelectWithQuestion("request_id = ?1")));
    return Inserter(std::move(writer), std::move(finder), std::move(by_request));
  }

  absl::StatusOr<InsertedMeasurement> Insert(const MeasurementRecord& measurement) {
    if (measurement.request_id.has_value()) {
      RETURN_IF_ERROR(by_request_.Bind(*measurement.request_id));
      ASSIGN_OR_RETURN(auto found, ReadNext(by_request_));
      if (found.has_value()) return Known(measurement, *std::move(found));
    }
    RETURN_IF_ERROR(writer_.Insert(measurement).status());
    ASSIGN_OR_RETURN(auto stored, finder_.Find(measurement.id));
    if (!stored.has_value()) return UnknownMeasurement(measurement.id);
    return InsertedMeasurement{.measurement = *std::move(stored), .is_new = true};
  }

 private:
  Inserter(MeasurementWriter writer, MeasurementFinder finder, Statement by_request)
      : writer_(std::move(writer)),
        finder_(std::move(finder)),
        by_request_(std::move(by_request)) {}

  static absl::StatusOr<InsertedMeasurement> Known(const MeasurementRecord& measurement,
                                                   MeasurementRecord found) {
    if (found.request_hash == measurement.request_hash) {
      return InsertedMeasurement{.measurement = std::move(found), .is_new = false};
    }
    return WithReason(absl::InvalidArgumentError(
                          fmt::format("request_id = '{}'; was used by another request, which made "
                                      "measurement '{}'; must be new",
                                      *measurement.request_id, found.id)),
                      "REQUEST_ID_REUSED");
  }

  MeasurementWriter writer_;
  MeasurementFinder finder_;
  Statement by_request_;
};

struct Condition {
  bool is_there = false;
  std::string_view column = {};
  std::string_view test = {};
  // An index begins with it, after `leads_with`, and then sorts by the order.
  bool may_lead = false;
  std::string_view leads_with = {};
  bool is_of_question = true;  // a property of the measured question
};

// Lets the first present condition that may lead choose the index. That index also has the other
// columns, and facts of the question are tested by the question's id, so that no row is fetched
// unnecessarily. The unary plus hides these columns from SQLite's planner, which does not know the
// distribution of the rows and would rather sort all rows of a chip.
std::string LedByTheFirst(std::span<const Condition> conditions) {
  std::string where;
  std::string question;
  std::string_view leader;
  for (const Condition& condition : conditions) {
    if (!condition.is_there) continue;
    const bool leads = condition.may_lead && leader == condition.leads_with;
    if (leads) leader = condition.column;
    if (leads || !condition.is_of_question) {
      where += fmt::format(" AND {}measurements.{} {}", leads ? "" : "+", condition.column,
                           condition.test);
    } else {
      question += fmt::format(" AND {} {}", condition.column, condition.test);
    }
  }
  if (question.empty()) return where;
  return fmt::format("{} AND +question_id IN (SELECT id FROM questions WHERE true{})", where,
                     question);
}

// Returns the conditions that no index begins with.
std::string FilterClauses(const MeasurementFilter& filter, MeasurementOrder order) {
  const bool by_number = order == MeasurementOrder::kNewest || order == MeasurementOrder::kOldest;
  std::string where;
  if (filter.up_to_sequence.has_value()) {
    where += fmt::format(" AND {}measurements.sequence <= ?7", by_number ? "" : "+");
  }
  if (filter.has_interval) where += " AND expected_low_seconds IS NOT NULL";
  if (filter.is_retracted == false) where += " AND retractions.sequence IS NULL";
  if (filter.sources.empty()) return where;
  std::string words;
  for (const MeasurementSource source : filter.sources) {
    words += fmt::format("{}'{}'", words.empty() ? "" : ", ", Word(source));
  }
  return fmt::format("{} AND source IN ({})", where, words);
}

// Returns the tables of a list. The few retractions lead a list of what is retracted, so that it
// does not search through all that counts.
std::string From(const MeasurementFilter& filter) {
  const std::string_view seen =
      filter.retracted_up_to.has_value() ? " AND retractions.sequence <= ?10" : "";
  if (filter.is_retracted != true) return fmt::format("{}{} ", kWithRetractions, seen);
  return fmt::format(
      "retractions CROSS JOIN measurements ON measurements.id = measurement_id{} "
      "JOIN questions ON questions.id = question_id ",
      seen);
}

std::string Where(const MeasurementFilter& filter, MeasurementOrder order) {
  const bool by_time = order == MeasurementOrder::kLatest;
  const bool is_fastest = order == MeasurementOrder::kFastest;
  const bool is_rare = !by_time && !is_fastest && filter.outcome != Outcome::kOk;
  const Condition conditions[] = {
      {filter.study_id.has_value(), "study_id", "= ?2", !by_time, "", false},
      {filter.outcome.has_value(), "outcome", "= ?6", is_rare, "", false},
      {filter.job_fingerprint.has_value(), "job_fingerprint", "= ?1", !by_time},
      {filter.model_name.has_value(), "model_name", "= ?3", !by_time},
      {filter.chip.has_value(), "chip", "= ?4", true},
      {filter.framework.has_value(), "framework", "= ?5", true, "chip"},
  };
  return fmt::format("WHERE {}{}{}", is_fastest ? "step_time_seconds IS NOT NULL" : "true",
                     LedByTheFirst(conditions), FilterClauses(filter, order));
}

std::string_view AfterKey(MeasurementOrder order) {
  switch (order) {
    case MeasurementOrder::kNewest:
      return " AND measurements.sequence < ?8";
    case MeasurementOrder::kOldest:
      return " AND measurements.sequence > ?8";
    case MeasurementOrder::kFastest:
      return " AND (step_time_seconds, measurements.sequence) > (?9, ?8)";
    case MeasurementOrder::kLatest:
      return " AND (measurements.time_ms, measurements.sequence) < (?9, ?8)";
  }
  std::abort();
}

std::string_view OrderBy(MeasurementOrder order) {
  switch (order) {
    case MeasurementOrder::kNewest:
      return " ORDER BY measurements.sequence DESC LIMIT ?11";
    case MeasurementOrder::kOldest:
      return " ORDER BY measurements.sequence LIMIT ?11";
    case MeasurementOrder::kFastest:
      return " ORDER BY step_time_seconds, measurements.sequence LIMIT ?11";
    case MeasurementOrder::kLatest:
      return " ORDER BY measurements.time_ms DESC, measurements.sequence DESC LIMIT ?11";
  }
  std::abort();
}

// Returns the name of the list that a page token is bound to.
std::string ListName(const MeasurementFilter& filter, MeasurementOrder order) {
  std::string name = fmt::format("measurements/{}", static_cast<int>(order));
  const auto add = [&name](const auto& value) {
    name += value.has_value() ? fmt::format("/{}", *value) : "//";
  };
  add(filter.chip);
  add(filter.framework);
  add(filter.model_name);
  add(filter.job_fingerprint);
  add(filter.study_id);
  add(OptionalWord(filter.outcome));
  add(filter.up_to_sequence);
  for (const MeasurementSource source : filter.sources) name += fmt::format("/{}", Word(source));
  if (filter.has_interval) name += "/interval";
  if (filter.is_retracted.has_value()) name += *filter.is_retracted ? "/retracted" : "/counting";
  if (filter.retracted_up_to.has_value()) {
    name += fmt::format("/retracted up to {}", *filter.retracted_up_to);
  }
  return name;
}

// Returns the position after a row: its number and, as text, the step time or time that precedes
// the number in the order.
PageKey KeyOf(const MeasurementRecord& row, MeasurementOrder order) {
  PageKey key = {.number = row.sequence};
  if (order == MeasurementOrder::kLatest) {
    key.text = fmt::format("{}", row.time_ms);
  } else if (row.step_time.has_value()) {
    key.text = fmt::format("{:.17g}", row.step_time->count());
  }
  return key;
}

// Returns the time in a token. The digits of a step time keep every bit, and a double holds
// milliseconds since 1970 exactly for longer than stores will exist.
double TimeOf(const PageKey& key) {
  double time = 0;
  std::from_chars(key.text.data(), key.text.data() + key.text.size(), time);
  return time;
}

}  // namespace

absl::StatusOr<MeasurementWriter> MeasurementWriter::Prepare(Connection* connection) {
  ASSIGN_OR_RETURN(QuestionWriter questions, QuestionWriter::Prepare(connection));
  // VALUES, not SELECT ... FROM questions: for the latter SQLite would begin a statement journal
  // for each row, and end it by walking through all that the transaction has changed so far.
  ASSIGN_OR_RETURN(Statement insert, Statement::PrepareInsert(connection, R"sql(
INSERT INTO measurements (question_id, chip, framework, model_name, job_fingerprint, id, source,
  study_id, plan_key, plan_digest, plan, outcome, step_time_seconds, peak_memory_bytes,
  expected_step_time_seconds, expected_low_seconds, expected_high_seconds,
  expected_peak_memory_bytes, calibration_id, device_seconds, time_ms, request_id, request_hash,
  job_name, note)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
  ?21, ?22, ?23, ?24, ?25))sql",
                                                              "sequence"));
  return MeasurementWriter(std::move(questions), std::move(insert));
}

absl::StatusOr<std::int64_t> MeasurementWriter::Insert(const MeasurementRecord& measurement) {
  RETURN_IF_ERROR(Validate(measurement));
  ASSIGN_OR_RETURN(const FiledQuestion* question,
                   questions_.Insert(measurement.question, measurement.time_ms));
  const ExpectedFigures& expected = measurement.expected;
  RETURN_IF_ERROR(
      insert_.Bind(question->id, question->chip, question->framework, question->model_name,
                   question->job_fingerprint, measurement.id, Word(measurement.source),
                   measurement.study_id, measurement.plan_key, measurement.plan_digest,
                   Blob{measurement.plan}, Word(measurement.outcome), Count(measurement.step_time),
                   Count(measurement.peak_memory), Count(expected.step_time), Count(expected.low),
                   Count(expected.high), Count(expected.peak_memory), expected.calibration_id,
                   measurement.device_time.count(), measurement.time_ms, measurement.request_id,
                   measurement.request_hash, measurement.job_name, measurement.note));
  const auto sequence = insert_.Insert();
  if (absl::IsAlreadyExists(sequence.status())) {
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "measurement id = '{}'; exists; must be new", measurement.id)),
                      "MEASUREMENT_EXISTS");
  }
  return sequence;
}

absl::StatusOr<MeasurementFinder> MeasurementFinder::Prepare(Connection* connection) {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection, SelectWithQuestion("measurements.id = ?1")));
  return MeasurementFinder(std::move(query));
}

absl::StatusOr<std::optional<MeasurementRecord>> MeasurementFinder::Find(std::string_view id) {
  RETURN_IF_ERROR(query_.Bind(id));
  return ReadNext(query_);
}

absl::StatusOr<std::vector<InsertedMeasurement>> Recorder::InsertMeasurements(
    std::span<const MeasurementRecord> measurements) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  std::vector<InsertedMeasurement> inserted;
  inserted.reserve(measurements.size());
  {
    ASSIGN_OR_RETURN(Inserter inserter, Inserter::Prepare(connection_.get()));
    for (const MeasurementRecord& measurement : measurements) {
      ASSIGN_OR_RETURN(InsertedMeasurement one, inserter.Insert(measurement));
      inserted.push_back(std::move(one));
    }
  }
  RETURN_IF_ERROR(transaction.Commit());
  return inserted;
}

absl::StatusOr<MeasurementRecord> Recorder::GetMeasurement(std::string_view id) const {
  ASSIGN_OR_RETURN(MeasurementFinder finder, MeasurementFinder::Prepare(connection_.get()));
  ASSIGN_OR_RETURN(auto found, finder.Find(id));
  if (!found.has_value()) return UnknownMeasurement(id);
  return *std::move(found);
}

absl::StatusOr<std::vector<std::optional<MeasurementRecord>>> Recorder::FindMeasurements(
    std::span<const MeasurementRecord> like) const {
  ASSIGN_OR_RETURN(MeasurementFinder finder, MeasurementFinder::Prepare(connection_.get()));
  std::vector<std::optional<MeasurementRecord>> found;
  found.reserve(like.size());
  for (const MeasurementRecord& measurement : like) {
    ASSIGN_OR_RETURN(auto ours, finder.Find(measurement.id));
    found.push_back(std::move(ours));
  }
  return found;
}

absl::StatusOr<std::optional<MeasurementRecord>> Recorder::FindMeasurementOfRequest(
    std::string_view request_id) const {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection_.get(), SelectWithQuestion("request_id = ?1")));
  RETURN_IF_ERROR(query.Bind(request_id));
  return ReadNext(query);
}

absl::StatusOr<std::int64_t> Recorder::LastMeasurementSequence() const {
  return QueryInteger(connection_.get(), R"sql(
SELECT coalesce(max(last), 0)
FROM (SELECT max(sequence) AS last FROM measurements
      UNION ALL SELECT max(sequence) FROM retractions) AS numbers)sql");
}

absl::StatusOr<std::int64_t> Recorder::LastSequenceOf(std::string_view chip,
                                                      std::string_view framework,
                                                      std::int64_t up_to_sequence) const {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT coalesce(max(last), 0)
FROM (SELECT max(sequence) AS last FROM measurements
      WHERE chip = ?1 AND framework = ?2 AND sequence <= ?3
      UNION ALL SELECT max(sequence) FROM retractions WHERE sequence <= ?3) AS numbers)sql"));
  RETURN_IF_ERROR(query.Bind(chip, framework, up_to_sequence));
  ASSIGN_OR_RETURN(const bool has_row, query.Step());
  if (!has_row) return absl::InternalError("no row: the last sequence of a chip");
  return query.Integer(0);
}

absl::StatusOr<MeasurementPage> Recorder::ListMeasurements(const MeasurementFilter& filter,
                                                           MeasurementOrder order, int page_size,
                                                           std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const std::string list = ListName(filter, order);
  std::string rest = From(filter) + Where(filter, order);
  PageKey after;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    rest += AfterKey(order);
  }
  rest += OrderBy(order);
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), Select(rest)));
  RETURN_IF_ERROR(query.Bind(filter.job_fingerprint, filter.study_id, filter.model_name,
                             filter.chip, filter.framework, OptionalWord(filter.outcome),
                             filter.up_to_sequence, after.number, TimeOf(after),
                             filter.retracted_up_to, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<MeasurementRecord>(query, size, [](const Statement& row) {
                     return ReadMeasurementRow(row, false);
                   }));
  MeasurementPage page = {.measurements = std::move(rows.records)};
  if (!rows.has_more) return page;
  page.next_page_token = EncodePageToken(list, KeyOf(page.measurements.back(), order));
  return page;
}

absl::Status InsertRetraction(Connection* connection, std::string_view measurement_id,
                              const Retraction& retraction) {
  // A measurement was inserted before, since there is one to be retracted.
  ASSIGN_OR_RETURN(const std::int64_t sequence, connection->TakeNumber("measurements", "sequence"));
  return Run(connection, "INSERT INTO retractions VALUES (?1, ?2, ?3, ?4)", sequence,
             measurement_id, retraction.time_ms, retraction.reason);
}

absl::StatusOr<MeasurementRecord> Recorder::RetractMeasurement(std::string_view id,
                                                               const Retraction& retraction) {
  if (const auto mistake = RetractionReasonMistake(retraction.reason)) {
    return InvalidFields({{.field = "reason", .description = *mistake}});
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(MeasurementRecord measurement, GetMeasurement(id));
  if (measurement.retraction.has_value()) {
    if (measurement.retraction->reason == retraction.reason) return measurement;
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "measurement '{}' is retracted with another reason, which stays: \"{}\"",
                          id, measurement.retraction->reason)),
                      "MEASUREMENT_RETRACTED");
  }
  RETURN_IF_ERROR(InsertRetraction(connection_.get(), id, retraction));
  ASSIGN_OR_RETURN(measurement, GetMeasurement(id));
  RETURN_IF_ERROR(transaction.Commit());
  return measurement;
}

}  // namespace meshwright
