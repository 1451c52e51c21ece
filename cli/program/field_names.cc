#include "cli/program/field_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "cli/program/suggestion.h"

namespace meshwright {
namespace {

// The names of an error's fields, in their order, each ended by a zero byte: no flag, path or key
// has one.
constexpr char kNamesUrl[] = "meshwright/field_names";

bool IsBelow(std::string_view field, std::string_view parent) {
  if (parent.empty()) return true;
  if (!field.starts_with(parent)) return false;
  const std::string_view rest = field.substr(parent.size());
  return rest.empty() || rest.front() == '.' || rest.front() == '[';
}

// Returns the place of a field in a file: "[2].plan" is "row 3: plan", because lines may be blank.
std::string PlaceInFile(std::string_view rest) {
  if (rest.starts_with('.')) return std::string(rest.substr(1));
  if (!rest.starts_with('[')) return std::string(rest);
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), index);
  const std::string_view below = rest.substr(static_cast<std::size_t>(end - rest.data()));
  if (error != std::errc() || !below.starts_with(']')) return std::string(rest);
  const std::string_view key = below.substr(std::min<std::size_t>(2, below.size()));
  return fmt::format("row {}{}{}", index + 1, key.empty() ? "" : ": ", key);
}

std::string NameOf(const FieldViolation& violation, const FieldNames& names) {
  const FieldName* best = nullptr;
  for (const FieldName& name : names) {
    const bool is_closer = best == nullptr || name.field.size() > best->field.size();
    if (is_closer && IsBelow(violation.field, name.field)) best = &name;
  }
  if (best == nullptr) return violation.field;
  if (best->file.empty()) return best->flag;
  const std::string_view rest = std::string_view(violation.field).substr(best->field.size());
  // A mistake of the path repeats it as the value; one of the file's text does not.
  const bool is_whole = rest.empty() || best->field.empty();
  if (is_whole && violation.description.starts_with(best->file)) return best->flag;
  const std::string_view file = best->file == "-" ? std::string_view("stdin") : best->file;
  return rest.empty() ? std::string(file) : fmt::format("{}: {}", file, PlaceInFile(rest));
}

// A launch script that was not read states nothing, so that the parts that are missing without it
// are no mistakes of their own.
bool IsMissingBecause(const FieldViolation& violation, const std::vector<FieldViolation>& all) {
  constexpr std::string_view kParts[] = {"model", "workload", "plan"};
  const auto is_of_script = [](const FieldViolation& one) { return IsBelow(one.field, "from"); };
  const auto has = [&](std::string_view part) { return IsBelow(violation.field, part); };
  return violation.description.starts_with("missing; required") &&
         std::ranges::any_of(kParts, has) && std::ranges::any_of(all, is_of_script);
}

std::string Line(const FieldViolation& violation, const std::string& name) {
  return fmt::format("{}{}{}{}", name, name.empty() ? "" : " = ", violation.description,
                     SuggestionFor(violation.description));
}

}  // namespace

absl::Status NamedAsStated(const absl::Status& status, const FieldNames& names) {
  const std::vector<FieldViolation> violations = FieldViolations(status);
  if (violations.empty()) return status;
  std::vector<FieldViolation> kept = violations;
  std::erase_if(kept, [&](const auto& one) { return IsMissingBecause(one, violations); });
  if (kept.size() < violations.size()) return NamedAsStated(InvalidFields(kept), names);
  std::string message;
  std::string payload;
  for (const FieldViolation& violation : violations) {
    const std::string name = NameOf(violation, names);
    if (!message.empty()) message += "; ";
    message += Line(violation, name);
    payload += name;
    payload += '\0';
  }
  if (violations.size() > 1) {
    message = fmt::format("{} invalid fields: {}", violations.size(), message);
  }
  absl::Status named(status.code(), message);
  status.ForEachPayload(
      [&named](auto url, const absl::Cord& content) { named.SetPayload(url, content); });
  named.SetPayload(kNamesUrl, absl::Cord(payload));
  return named;
}

std::vector<std::string> MistakeLines(const absl::Status& status) {
  const auto payload = status.GetPayload(kNamesUrl);
  const std::string names = payload.has_value() ? std::string(*payload) : "";
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (const FieldViolation& violation : FieldViolations(status)) {
    const std::size_t end = names.find('\0', at);
    const bool is_named = end != std::string::npos;
    lines.push_back(Line(violation, is_named ? names.substr(at, end - at) : violation.field));
    if (is_named) at = end + 1;
  }
  return lines;
}

}  // namespace meshwright
