// The Recorder's calls for questions, which are what was measured, with their clusters and chips.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// Imports may have older times, so both ends of the span may move.
constexpr char kSeeCluster[] = R"sql(
INSERT INTO clusters (hardware_fingerprint, name, chip, device_count, first_seen_ms, last_seen_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT (hardware_fingerprint) DO UPDATE
SET first_seen_ms = CASE WHEN excluded.first_seen_ms < clusters.first_seen_ms
                         THEN excluded.first_seen_ms ELSE clusters.first_seen_ms END,
    last_seen_ms = CASE WHEN excluded.last_seen_ms > clusters.last_seen_ms
                        THEN excluded.last_seen_ms ELSE clusters.last_seen_ms END)sql";

constexpr char kSeeChip[] = R"sql(
INSERT INTO chips (id, fingerprint, first_seen_ms) VALUES (?1, ?2, ?3)
ON CONFLICT (id, fingerprint) DO UPDATE
SET first_seen_ms = CASE WHEN excluded.first_seen_ms < chips.first_seen_ms
                         THEN excluded.first_seen_ms ELSE chips.first_seen_ms END)sql";

constexpr char kInsertQuestion[] = R"sql(
INSERT INTO questions (digest, model_name, cluster_name, chip, framework, framework_version,
                       device_count, job_fingerprint, hardware_fingerprint, software_fingerprint,
                       chip_fingerprint, question)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))sql";

}  // namespace

absl::StatusOr<QuestionWriter> QuestionWriter::Prepare(Connection* connection) {
  ASSIGN_OR_RETURN(Statement see_cluster, Statement::Prepare(connection, kSeeCluster));
  ASSIGN_OR_RETURN(Statement see_chip, Statement::Prepare(connection, kSeeChip));
  ASSIGN_OR_RETURN(Statement find,
                   Statement::Prepare(connection,
                                      "SELECT id, chip, framework, model_name, job_fingerprint "
                                      "FROM questions WHERE digest = ?1"));
  ASSIGN_OR_RETURN(Statement insert, Statement::PrepareInsert(connection, kInsertQuestion, "id"));
  return QuestionWriter({.see_cluster = std::move(see_cluster),
                         .see_chip = std::move(see_chip),
                         .find = std::move(find),
                         .insert = std::move(insert)});
}

absl::Status QuestionWriter::See(const QuestionRecord& question, std::int64_t time_ms) {
  RETURN_IF_ERROR(statements_.see_cluster.Bind(question.hardware_fingerprint, question.cluster_name,
                                               question.chip, question.device_count, time_ms));
  RETURN_IF_ERROR(statements_.see_cluster.Run());
  RETURN_IF_ERROR(statements_.see_chip.Bind(question.chip, question.chip_fingerprint, time_ms));
  return statements_.see_chip.Run();
}

absl::StatusOr<FiledQuestion> QuestionWriter::File(const QuestionRecord& question) {
  RETURN_IF_ERROR(statements_.find.Bind(question.digest));
  ASSIGN_OR_RETURN(const bool is_there, statements_.find.Step());
  if (is_there) {
    return FiledQuestion{.id = statements_.find.Integer(0),
                         .chip = statements_.find.Text(1),
                         .framework = statements_.find.Text(2),
                         .model_name = statements_.find.Text(3),
                         .job_fingerprint = statements_.find.Text(4)};
  }
  RETURN_IF_ERROR(statements_.insert.Bind(
      question.digest, question.model_name, question.cluster_name, question.chip,
      question.framework, question.framework_version, question.device_count,
      question.job_fingerprint, question.hardware_fingerprint, question.software_fingerprint,
      question.chip_fingerprint, Blob{question.question}));
  ASSIGN_OR_RETURN(const std::int64_t id, statements_.insert.Insert());
  return FiledQuestion{.id = id,
                       .chip = question.chip,
                       .framework = question.framework,
                       .model_name = question.model_name,
                       .job_fingerprint = question.job_fingerprint};
}

absl::StatusOr<const FiledQuestion*> QuestionWriter::Insert(const QuestionRecord& question,
                                                            std::int64_t time_ms) {
  const auto known = seen_.find(question.digest);
  if (known != seen_.end()) {
    Seen& seen = known->second;
    if (time_ms < seen.first_ms || time_ms > seen.last_ms) RETURN_IF_ERROR(See(question, time_ms));
    seen.first_ms = std::min(seen.first_ms, time_ms);
    seen.last_ms = std::max(seen.last_ms, time_ms);
    return &seen.row;
  }
  RETURN_IF_ERROR(See(question, time_ms));
  ASSIGN_OR_RETURN(FiledQuestion row, File(question));
  const auto [place, is_new] = seen_.insert_or_assign(
      question.digest, Seen{.row = std::move(row), .first_ms = time_ms, .last_ms = time_ms});
  return &place->second.row;
}

absl::StatusOr<QuestionRecord> Recorder::GetQuestion(std::string_view digest) const {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT digest, model_name, cluster_name, chip, framework, framework_version, device_count,
       job_fingerprint, hardware_fingerprint, software_fingerprint, chip_fingerprint, question
FROM questions WHERE digest = ?1)sql"));
  RETURN_IF_ERROR(query.Bind(digest));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) {
    return WithReason(absl::NotFoundError(fmt::format("question '{}' does not exist", digest)),
                      "UNKNOWN_QUESTION");
  }
  return QuestionRecord{.digest = query.Text(0),
                        .model_name = query.Text(1),
                        .cluster_name = query.Text(2),
                        .chip = query.Text(3),
                        .framework = query.Text(4),
                        .framework_version = query.Text(5),
                        .device_count = static_cast<int>(query.Integer(6)),
                        .job_fingerprint = query.Text(7),
                        .hardware_fingerprint = query.Text(8),
                        .software_fingerprint = query.Text(9),
                        .chip_fingerprint = query.Text(10),
                        .question = query.Text(11)};
}

}  // namespace meshwright
