#include "server/http/json_body.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "proto/json/json.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/lower_case.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr std::string_view kJsonType = "application/json";

// Returns the media type without its parameters, as "application/json" for
// "application/json; charset=utf-8".
std::string MediaType(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return LowerCase(type);
}

absl::Status CheckType(const HttpRequest& request) {
  if (MediaType(request.content_type) == kJsonType) return absl::OkStatus();
  return WithReason(
      absl::InvalidArgumentError(
          fmt::format("Content-Type {}; must be {}", QuotedText(request.content_type), kJsonType)),
      "UNSUPPORTED_MEDIA_TYPE");
}

// Sets the fields, which are all strings, that the address states.
void SetAddressFields(const NamedValues& fields, google::protobuf::Message& message,
                      std::vector<FieldViolation>& violations) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (const auto& [name, value] : fields) {
    const auto* const field = message.GetDescriptor()->FindFieldByName(name);
    const std::string stated = reflection.GetString(message, field);
    if (!stated.empty() && stated != value) {
      violations.push_back(
          {.field = name,
           .description = fmt::format("{}; must be {} as in the address, or absent",
                                      QuotedText(stated), QuotedText(value))});
    }
    reflection.SetString(&message, field, value);
  }
}

}  // namespace

absl::Status ReadJsonBody(const HttpRequest& request, const NamedValues& address_fields,
                          google::protobuf::Message& message) {
  RETURN_IF_ERROR(CheckType(request));
  std::vector<FieldViolation> violations = ParseJson(request.body, "", message);
  SetAddressFields(address_fields, message, violations);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace meshwright
