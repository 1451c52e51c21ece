#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The first part reads and writes values with units as columns, and reads pages of rows; internal
// to recorder/.

inline std::optional<double> Count(const std::optional<Seconds>& time) {
  if (!time.has_value()) return std::nullopt;
  return time->count();
}

inline std::optional<std::int64_t> Count(const std::optional<Bytes>& memory) {
  if (!memory.has_value()) return std::nullopt;
  return memory->count;
}

inline std::optional<Seconds> OptionalSeconds(const Statement& row, int column) {
  const auto seconds = row.OptionalReal(column);
  if (!seconds.has_value()) return std::nullopt;
  return Seconds(*seconds);
}

inline std::optional<Bytes> OptionalBytes(const Statement& row, int column) {
  const auto bytes = row.OptionalInteger(column);
  if (!bytes.has_value()) return std::nullopt;
  return Bytes{*bytes};
}

template <typename Enum>
std::optional<std::string_view> OptionalWord(const std::optional<Enum>& value) {
  if (!value.has_value()) return std::nullopt;
  return Word(*value);
}

// Returns the column's word. DATA_LOSS with reason STORE_CORRUPT if the column holds none of the
// words.
template <typename Enum>
absl::StatusOr<Enum> ReadWord(const Statement& row, int column, std::string_view whose) {
  const auto value = ParseChoice<Enum>(row.Text(column));
  if (value.has_value()) return *value;
  return WithReason(absl::DataLossError(fmt::format("{}: the store holds '{}'; must be one of {}",
                                                    whose, row.Text(column), AllowedWords<Enum>())),
                    "STORE_CORRUPT");
}

template <typename Enum>
absl::StatusOr<std::optional<Enum>> ReadOptionalWord(const Statement& row, int column,
                                                     std::string_view whose) {
  if (!row.OptionalText(column).has_value()) return std::nullopt;
  return ReadWord<Enum>(row, column, whose);
}

template <typename Record>
struct RowPage {
  std::vector<Record> records = {};
  bool has_more = false;
};

// Returns the first `size` rows of a query that asks for one more row; that row shows whether
// another page follows.
template <typename Record, typename ReadRow>
absl::StatusOr<RowPage<Record>> ReadPage(Statement& query, int size, const ReadRow& read_row) {
  RowPage<Record> rows;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return rows;
    if (std::ssize(rows.records) == size) break;
    absl::StatusOr<Record> record = read_row(query);
    if (!record.ok()) return record.status();
    rows.records.push_back(*std::move(record));
  }
  rows.has_more = true;
  return rows;
}

// The row-level steps of the Recorder's transactions; internal to recorder/. The caller holds the
// transaction.

// Returns ids as the JSON that statements about many rows take. One statement changes all of them,
// because within a transaction that others share, the cost of a statement grows with what the
// transaction has changed so far.
std::string IdsJson(std::span<const std::string> ids);

absl::Status UnknownStudy(std::string_view id);

// Returns NOT_FOUND for an unknown study, so that an empty list never hides a mistyped id.
absl::Status CheckStudyExists(Connection* connection, std::string_view id);

// Returns ABORTED with reason STALE_STUDY if somebody has changed the study since the count.
absl::Status CheckEdits(const StudyRecord& study, std::optional<std::int64_t> edit_count);

// Returns FAILED_PRECONDITION with reason STUDY_DELETED if a deleted study had this id or came from
// this request.
absl::Status CheckNeverDeleted(Connection* connection, const StudyRecord& study);

// Returns NOT_FOUND for an unknown study, FAILED_PRECONDITION with reason STUDY_ENDED for a
// terminal one.
absl::Status CheckStudyLives(Connection* connection, std::string_view id);

// Reads the studies of a condition and an order, as "WHERE ... ORDER BY ...", whose parameter, if
// there is one, is ?1.
absl::StatusOr<std::vector<StudyRecord>> ReadStudies(Connection* connection, std::string_view where,
                                                     std::optional<std::int64_t> parameter = {});

// Adds a line to the journal for a change of state; its payload is the word of the state.
absl::Status AppendStateEvent(Connection* connection, const std::string& id, StudyState state,
                              std::int64_t time_ms);

absl::Status InsertPlans(Connection* connection, std::span<const PlanRecord> plans);

// Stores events and gives each its study's next revision.
absl::StatusOr<std::vector<std::int64_t>> InsertEvents(Connection* connection,
                                                       std::span<const EventRecord> events);

// A question's row, with the values that its measurements' rows repeat.
struct FiledQuestion {
  std::int64_t id = 0;
  std::string chip = {};
  std::string framework = {};
  std::string model_name = {};
  std::string job_fingerprint = {};
};

// Stores questions within one transaction. Its statements are prepared once, because preparing them
// takes longer than running them.
class QuestionWriter {
 public:
  static absl::StatusOr<QuestionWriter> Prepare(Connection* connection);

  // Returns the question's row; also stores its cluster and chip as seen at `time_ms`. A question
  // whose digest exists is not changed. The pointer is valid until the next call.
  absl::StatusOr<const FiledQuestion*> Insert(const QuestionRecord& question, std::int64_t time_ms);

 private:
  struct Statements {
    Statement see_cluster;
    Statement see_chip;
    Statement find;
    Statement insert;
  };
  struct Seen {
    FiledQuestion row = {};
    std::int64_t first_ms = 0;
    std::int64_t last_ms = 0;
  };
  explicit QuestionWriter(Statements statements) : statements_(std::move(statements)) {}

  absl::Status See(const QuestionRecord& question, std::int64_t time_ms);
  absl::StatusOr<FiledQuestion> File(const QuestionRecord& question);

  Statements statements_;
  std::map<std::string, Seen> seen_;  // questions of this transaction, by digest
};

// Stores measurements with statements that are prepared once.
class MeasurementWriter {
 public:
  static absl::StatusOr<MeasurementWriter> Prepare(Connection* connection);

  // Returns the sequence. ALREADY_EXISTS with reason MEASUREMENT_EXISTS if the id exists. Ignores
  // request_id and retraction.
  absl::StatusOr<std::int64_t> Insert(const MeasurementRecord& measurement);

 private:
  MeasurementWriter(QuestionWriter questions, Statement insert)
      : questions_(std::move(questions)), insert_(std::move(insert)) {}

  QuestionWriter questions_;
  Statement insert_;
};

// Stores the retraction of a measurement that has none, under the next sequence.
absl::Status InsertRetraction(Connection* connection, std::string_view measurement_id,
                              const Retraction& retraction);

// Finds measurements by their ids, with their questions' bytes. Its statement is prepared once.
class MeasurementFinder {
 public:
  static absl::StatusOr<MeasurementFinder> Prepare(Connection* connection);

  absl::StatusOr<std::optional<MeasurementRecord>> Find(std::string_view id);

 private:
  explicit MeasurementFinder(Statement query) : query_(std::move(query)) {}

  Statement query_;
};

// Splits a text into parts that each end with a character, and joins them again. The last part need
// not end with it; no part may contain it.
std::vector<std::string> SplitText(std::string_view text, char end_of_part);
std::string JoinText(const std::vector<std::string>& parts, char end_of_part);

absl::StatusOr<TrialRecord> ReadTrial(Connection* connection, std::string_view study_id,
                                      int number);

absl::StatusOr<AttemptRecord> ReadAttempt(Connection* connection, std::string_view id);

// Stores the next attempt at a trial, and ends an earlier one that has not ended.
absl::StatusOr<AttemptRecord> InsertAttempt(Connection* connection, const AttemptIntent& intent);

// Ends an attempt as Recorder::FinishAttempt does.
absl::StatusOr<AttemptRecord> EndAttempt(Connection* connection, const AttemptEnding& ending);

}  // namespace meshwright
