#include "server/plugins/protocol/candidate_columns.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "search_space/base/status.h"
#include "server/plugins/protocol/columns.h"

namespace meshwright {
namespace {

absl::Status CheckLength(std::string_view column, int length, int count) {
  if (length == 0 || length == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("candidates.{} has {} entries; must have {} or none", column, length, count));
}

absl::Status CheckLists(const costmodel::v1::Candidates& c, const CandidateLists& lists) {
  const std::string_view column = lists.values.name;
  const auto& lengths = (c.*lists.lengths.get)();
  const int values = (c.*lists.values.get)().size();
  RETURN_IF_ERROR(CheckLength(lists.lengths.name, lengths.size(), c.count()));
  std::int64_t sum = 0;
  for (const std::int32_t length : lengths) {
    if (length < 0) {
      return absl::InvalidArgumentError(
          fmt::format("candidates.{} has {}; must be >= 0", lists.lengths.name, length));
    }
    sum += length;
  }
  if (sum == values) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("candidates.{} has {} entries; its lengths add up to {}", column, values, sum));
}

}  // namespace

absl::Status CheckColumns(const costmodel::v1::Candidates& c) {
  const int n = c.count();
  if (n < 0) {
    return absl::InvalidArgumentError(fmt::format("candidates.count = {}; must be >= 0", n));
  }
  absl::Status status;
  ForEachColumn([&](const auto& column) {
    status.Update(CheckLength(column.name, (c.*column.get)().size(), n));
  });
  for (const CandidateLists& lists : kListColumns) status.Update(CheckLists(c, lists));
  return status;
}

}  // namespace meshwright
