#include "search_space/base/status.h"

#include "absl/strings/cord.h"

namespace meshwright {
namespace {

constexpr char kViolationsUrl[] = "meshwright/violations";
constexpr char kReasonUrl[] = "meshwright/reason";

}  // namespace

absl::Status InvalidFields(const std::vector<FieldViolation>& violations) {
  std::string message;
  std::string payload;
  for (const FieldViolation& v : violations) {
    if (!message.empty()) message += "; ";
    message += v.field.empty() ? v.description : v.field + " = " + v.description;
    payload += v.field + '\0' + v.description + '\0';
  }
  if (violations.size() > 1) {
    message = std::to_string(violations.size()) + " invalid fields: " + message;
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
  std::size_t at = 0;
  const auto next = [&] {
    const std::size_t end = text.find('\0', at);
    std::string part = text.substr(at, end - at);
    at = end + 1;
    return part;
  };
  while (at < text.size()) {
    std::string field = next();
    violations.push_back({.field = std::move(field), .description = next()});
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
