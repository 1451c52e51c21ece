#include "search_space/base/status.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <system_error>

#include "absl/strings/cord.h"
#include "search_space/base/clean_text.h"

namespace meshwright {
namespace {

constexpr char kViolationsUrl[] = "meshwright/violations";
constexpr char kReasonUrl[] = "meshwright/reason";

// Longer than any path or description of ours; an input can be quoted at any length.
constexpr std::size_t kMaxMistakeBytes = 4096;

// The payload is a sequence of texts, each written as "5:hello", because a text may hold any byte.
void AppendText(std::string_view text, std::string& payload) {
  payload += std::to_string(text.size());
  payload += ':';
  payload += text;
}

// Takes the first text off the payload; returns nullopt if there is none.
std::optional<std::string> TakeText(std::string_view& payload) {
  std::size_t size = 0;
  const char* const end = payload.data() + payload.size();
  const auto [colon, error] = std::from_chars(payload.data(), end, size);
  if (error != std::errc() || colon == end || *colon != ':') return std::nullopt;
  payload.remove_prefix(static_cast<std::size_t>(colon - payload.data()) + 1);
  if (size > payload.size()) return std::nullopt;
  std::string text(payload.substr(0, size));
  payload.remove_prefix(size);
  return text;
}

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

// A field's path has keys of the input, and a description may quote it.
std::string Shown(std::string_view text) {
  return CleanText(text, {.longest_bytes = kMaxMistakeBytes, .keeps_lines = true});
}

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

absl::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  std::string message;
  std::string payload;
  for (const FieldViolation& v : FirstFields(violations, kMaxListedFields)) {
    const std::string field = Shown(v.field);
    const std::string description = Shown(v.description);
    if (!message.empty()) message += "; ";
    if (!field.empty()) message += field;
    if (!field.empty()) message += " = ";
    message += description;
    AppendText(field, payload);
    AppendText(description, payload);
  }
  if (const std::size_t count = CountFields(violations); count > 1) {
    message = std::to_string(count) + " invalid fields: " + message;
  }
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kViolationsUrl, absl::Cord(payload));
  return WithReason(std::move(status), "INVALID_FIELDS");
}

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  const auto payload = status.GetPayload(kViolationsUrl);
  if (!payload.has_value()) return violations;
  const std::string text(*payload);
  std::string_view rest = text;
  while (auto field = TakeText(rest)) {
    auto description = TakeText(rest);
    if (!description.has_value()) break;
    violations.push_back({.field = *std::move(field), .description = *std::move(description)});
  }
  return violations;
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

std::string Reason(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonUrl);
  if (payload.has_value()) return std::string(*payload);
  return absl::StatusCodeToString(status.code());
}

}  // namespace meshwright
