#include "search_space/base/listed_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <system_error>

namespace meshwright {
namespace {

constexpr std::string_view kMoreFields = " more invalid fields";

// Returns the number of violations for which an entry of a list stands: more than one only if the
// entry counts those that another list left out.
std::size_t WeightOf(const FieldViolation& violation) {
  if (!violation.field.empty() || !violation.description.ends_with(kMoreFields)) return 1;
  const char* const begin = violation.description.data();
  const char* const end = begin + violation.description.size() - kMoreFields.size();
  std::size_t count = 0;
  const auto read = std::from_chars(begin, end, count);
  return read.ec == std::errc() && read.ptr == end ? count : 1;
}

bool IsCount(const FieldViolation& violation) { return WeightOf(violation) > 1; }

}  // namespace

std::size_t CountFields(const std::vector<FieldViolation>& violations) {
  std::size_t count = 0;
  for (const FieldViolation& violation : violations) count += WeightOf(violation);
  return count;
}

std::vector<FieldViolation> FirstFields(const std::vector<FieldViolation>& violations,
                                        std::size_t count) {
  std::vector<FieldViolation> first;
  for (const FieldViolation& violation : violations) {
    if (first.size() == count) break;
    if (!IsCount(violation)) first.push_back(violation);
  }
  const std::size_t left_out = CountFields(violations) - first.size();
  if (left_out == 1) first.push_back({.description = "1 more invalid field"});
  if (left_out > 1) first.push_back({.description = fmt::format("{}{}", left_out, kMoreFields)});
  return first;
}

}  // namespace meshwright
