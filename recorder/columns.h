#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/sql.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Reads and writes values with units as columns, and reads pages of rows; internal to recorder/.

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

}  // namespace meshwright
