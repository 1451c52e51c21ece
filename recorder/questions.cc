// The Recorder's calls that concern what was measured: questions, clusters and chips.
#include <fmt/format.h>

#include <utility>

#include "recorder/columns.h"
#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr char kClusterList[] = "clusters";
constexpr char kChipList[] = "chips";

absl::StatusOr<std::optional<std::int64_t>> FindQuestion(sqlite3* connection,
                                                         std::string_view digest) {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection, "SELECT id FROM questions WHERE digest = ?1"));
  RETURN_IF_ERROR(query.Bind(digest));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return std::nullopt;
  return query.Integer(0);
}

// Imports bring older times along, so both ends of the span may move.
absl::Status SeeCluster(sqlite3* connection, const QuestionRecord& question, std::int64_t time_ms) {
  RETURN_IF_ERROR(Run(connection, R"sql(
INSERT INTO clusters (hardware_fingerprint, name, chip, device_count, first_seen_ms, last_seen_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?5)
ON CONFLICT DO UPDATE SET first_seen_ms = min(first_seen_ms, ?5),
                          last_seen_ms = max(last_seen_ms, ?5))sql",
                      question.hardware_fingerprint, question.cluster_name, question.chip,
                      question.device_count, time_ms));
  return Run(connection, R"sql(
INSERT INTO chips (id, fingerprint, first_seen_ms) VALUES (?1, ?2, ?3)
ON CONFLICT DO UPDATE SET first_seen_ms = min(first_seen_ms, ?3))sql",
             question.chip, question.chip_fingerprint, time_ms);
}

// The text of the last row of the page before; nothing on the first page.
absl::StatusOr<std::optional<std::string>> TextAfter(std::string_view list,
                                                     std::string_view page_token) {
  if (page_token.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(PageKey key, DecodePageToken(list, page_token));
  return std::move(key.text);
}

}  // namespace

absl::StatusOr<std::int64_t> InsertQuestion(sqlite3* connection, const QuestionRecord& question,
                                            std::int64_t time_ms) {
  RETURN_IF_ERROR(SeeCluster(connection, question, time_ms));
  ASSIGN_OR_RETURN(const auto found, FindQuestion(connection, question.digest));
  if (found.has_value()) return *found;
  RETURN_IF_ERROR(Run(connection, R"sql(
INSERT INTO questions (digest, model_name, cluster_name, chip, framework, framework_version,
                       device_count, job_fingerprint, hardware_fingerprint, software_fingerprint,
                       chip_fingerprint, question)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12))sql",
                      question.digest, question.model_name, question.cluster_name, question.chip,
                      question.framework, question.framework_version, question.device_count,
                      question.job_fingerprint, question.hardware_fingerprint,
                      question.software_fingerprint, question.chip_fingerprint,
                      Blob{question.question}));
  return QueryInteger(connection, "SELECT last_insert_rowid()");
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

absl::StatusOr<ClusterPage> Recorder::ListClusters(int page_size,
                                                   std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  ASSIGN_OR_RETURN(const auto after, TextAfter(kClusterList, page_token));
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT hardware_fingerprint, name, chip, device_count, first_seen_ms, last_seen_ms FROM clusters
WHERE ?1 IS NULL OR hardware_fingerprint > ?1 ORDER BY hardware_fingerprint LIMIT ?2)sql"));
  RETURN_IF_ERROR(query.Bind(after, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<ClusterRecord>(query, size, [](const Statement& row) {
                     return ClusterRecord{.hardware_fingerprint = row.Text(0),
                                          .name = row.Text(1),
                                          .chip = row.Text(2),
                                          .device_count = static_cast<int>(row.Integer(3)),
                                          .first_seen_ms = row.Integer(4),
                                          .last_seen_ms = row.Integer(5)};
                   }));
  ClusterPage page = {.clusters = std::move(rows.records)};
  if (rows.has_more) {
    page.next_page_token =
        EncodePageToken(kClusterList, {.text = page.clusters.back().hardware_fingerprint});
  }
  return page;
}

absl::StatusOr<ChipPage> Recorder::ListChips(int page_size, std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  ASSIGN_OR_RETURN(const auto after, TextAfter(kChipList, page_token));
  // One text of both columns, because a token holds one.
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT id, fingerprint, first_seen_ms, id || char(10) || fingerprint AS key FROM chips
WHERE ?1 IS NULL OR key > ?1 ORDER BY key LIMIT ?2)sql"));
  RETURN_IF_ERROR(query.Bind(after, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<ChipRecord>(query, size, [](const Statement& row) {
                     return ChipRecord{.id = row.Text(0),
                                       .fingerprint = row.Text(1),
                                       .first_seen_ms = row.Integer(2)};
                   }));
  ChipPage page = {.chips = std::move(rows.records)};
  if (rows.has_more) {
    const ChipRecord& last = page.chips.back();
    page.next_page_token =
        EncodePageToken(kChipList, {.text = fmt::format("{}\n{}", last.id, last.fingerprint)});
  }
  return page;
}

}  // namespace meshwright
