#include "server/convert/status_wire.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {
namespace {

constexpr char kInfeasibleUrl[] = "meshwright/infeasible";
constexpr char kResourceTypeUrl[] = "meshwright/resource_type";
constexpr char kResourceNameUrl[] = "meshwright/resource_name";
constexpr char kStudyIdUrl[] = "meshwright/study_id";
constexpr char kRetryAfterUrl[] = "meshwright/retry_after_ms";
constexpr char kStudyIdKey[] = "study_id";

// A client accepts by default only 8 KiB of trailing metadata (GRPC_ARG_MAX_METADATA_SIZE) and gets
// another error in place of a longer one. The message is in the metadata twice: as a header, in
// which each byte outside of ASCII takes three, and in the details, which take four bytes in base
// 64 for three. So the message and the parts of the details have the limits below, which leave 1
// KiB to everything else. A message that only lists bad fields is cut to their number; our own
// client rebuilds it from the details.
constexpr std::size_t kMaxHeaderBytes = 1500;  // of a message as a header
constexpr std::size_t kMaxDetailBytes = 2200;  // of the bad fields, or of what would fit
constexpr std::size_t kMaxPathBytes = 200;     // of the path of a bad field, or of a name
constexpr std::size_t kMaxMistakeBytes = 600;  // of what is wrong with a field
constexpr std::string_view kCut = "...";

// The time after which a caller of a server that starts should ask again.
constexpr std::chrono::milliseconds kStartingRetry(500);

std::optional<std::string> Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

absl::Status WithPayload(absl::Status status, const char* url, const std::string& text) {
  status.SetPayload(url, absl::Cord(text));
  return status;
}

// Returns a text of at most `longest` bytes, which is UTF-8 whatever it quotes.
std::string WithinBytes(const std::string& text, std::size_t longest) {
  if (text.size() <= longest) {
    return CleanText(text, {.longest_bytes = longest, .keeps_lines = true});
  }
  const TextForm form = {.longest_bytes = longest - kCut.size(), .keeps_lines = true};
  return CleanText(text, form).append(kCut);
}

// Returns how many bytes a message takes as a header (percent-encoded).
std::size_t HeaderBytes(const std::string& message) {
  std::size_t size = 0;
  for (const char c : message) size += c < ' ' || c > '~' || c == '%' ? 3 : 1;
  return size;
}

std::string ShortMessage(const std::string& message) {
  if (HeaderBytes(message) <= kMaxHeaderBytes) return WithinBytes(message, kMaxHeaderBytes);
  std::string shorter = WithinBytes(message, kMaxHeaderBytes);
  return HeaderBytes(shorter) <= kMaxHeaderBytes ? shorter
                                                 : WithinBytes(message, kMaxHeaderBytes / 3);
}

// Returns the violations that the details have room for, and a count of the others.
std::vector<FieldViolation> ShortList(const absl::Status& status) {
  std::vector<FieldViolation> violations = FieldViolations(status);
  std::size_t size = 0;
  std::size_t count = 0;
  for (FieldViolation& violation : violations) {
    violation.field = WithinBytes(violation.field, kMaxPathBytes);
    violation.description = WithinBytes(violation.description, kMaxMistakeBytes);
    size += violation.field.size() + violation.description.size();
    if (size <= kMaxDetailBytes) ++count;
  }
  return FirstFields(violations, count);
}

void AddErrorInfo(const absl::Status& status, google::rpc::Status& wire) {
  google::rpc::ErrorInfo info;
  info.set_reason(Reason(status));
  info.set_domain(kErrorDomain);
  if (const auto id = StudyIdOf(status)) (*info.mutable_metadata())[kStudyIdKey] = *id;
  wire.add_details()->PackFrom(info);
}

void AddBadRequest(const std::vector<FieldViolation>& violations, google::rpc::Status& wire) {
  google::rpc::BadRequest bad_request;
  for (const FieldViolation& violation : violations) {
    auto& field = *bad_request.add_field_violations();
    field.set_field(violation.field);
    field.set_description(violation.description);
  }
  wire.add_details()->PackFrom(bad_request);
}

void AddResourceInfo(const std::string& type, const std::string& name, google::rpc::Status& wire) {
  google::rpc::ResourceInfo resource;
  resource.set_resource_type(type);
  resource.set_resource_name(WithinBytes(name, kMaxPathBytes));
  wire.add_details()->PackFrom(resource);
}

void AddRetryInfo(std::chrono::milliseconds time, google::rpc::Status& wire) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(time.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(time.count() % 1000) * 1'000'000);
  wire.add_details()->PackFrom(retry);
}

std::chrono::milliseconds TimeOf(const google::rpc::RetryInfo& retry) {
  return std::chrono::milliseconds(retry.retry_delay().seconds() * 1000 +
                                   retry.retry_delay().nanos() / 1'000'000);
}

// Leaves out what nobody needs in order to see why nothing fits, if there is no room for it.
void AddInfeasible(v1::Infeasible infeasible, google::rpc::Status& wire) {
  while (infeasible.ByteSizeLong() > kMaxDetailBytes && infeasible.suggestions_size() > 0) {
    infeasible.mutable_suggestions()->RemoveLast();
  }
  if (infeasible.ByteSizeLong() > kMaxDetailBytes) infeasible.clear_pruned_count_by_rule();
  wire.add_details()->PackFrom(infeasible);
}

std::vector<FieldViolation> Violations(const google::rpc::BadRequest& bad_request) {
  std::vector<FieldViolation> violations;
  for (const auto& field : bad_request.field_violations()) {
    violations.push_back({.field = field.field(), .description = field.description()});
  }
  return violations;
}

// Adds the content of one detail to `status`.
absl::Status ApplyDetail(absl::Status status, const google::protobuf::Any& detail) {
  google::rpc::ErrorInfo info;
  google::rpc::ResourceInfo resource;
  v1::Infeasible infeasible;
  if (detail.UnpackTo(&info)) {
    if (info.reason() != absl::StatusCodeToString(status.code())) {
      status = WithReason(std::move(status), info.reason());
    }
    const auto id = info.metadata().find(kStudyIdKey);
    return id == info.metadata().end() ? status : WithStudyId(std::move(status), id->second);
  }
  if (detail.UnpackTo(&resource)) {
    return WithResource(std::move(status), resource.resource_type(), resource.resource_name());
  }
  google::rpc::RetryInfo retry;
  if (detail.UnpackTo(&retry)) return WithRetryAfter(std::move(status), TimeOf(retry));
  if (detail.UnpackTo(&infeasible)) {
    return WithPayload(std::move(status), kInfeasibleUrl, infeasible.SerializeAsString());
  }
  return status;
}

}  // namespace

absl::Status InfeasibleStatus(const v1::Infeasible& infeasible) {
  absl::Status status =
      WithReason(absl::FailedPreconditionError(
                     fmt::format("no plan fits: {} binds, {} bytes a device missing",
                                 infeasible.binding_memory_kind(), infeasible.missing_bytes())),
                 kNoFeasiblePlanReason);
  return WithPayload(std::move(status), kInfeasibleUrl, infeasible.SerializeAsString());
}

std::optional<v1::Infeasible> InfeasibleOf(const absl::Status& status) {
  const auto payload = Payload(status, kInfeasibleUrl);
  v1::Infeasible infeasible;
  if (!payload.has_value() || !infeasible.ParseFromString(*payload)) return std::nullopt;
  return infeasible;
}

absl::Status WithResource(absl::Status status, const std::string& type, const std::string& name) {
  return WithPayload(WithPayload(std::move(status), kResourceTypeUrl, type), kResourceNameUrl,
                     name);
}

absl::Status DamagedInStore(std::string_view what, std::string_view id) {
  return WithReason(absl::DataLossError(fmt::format("the stored {} '{}' cannot be read", what, id)),
                    "STORE_CORRUPT");
}

absl::Status WithRetryAfter(absl::Status status, std::chrono::milliseconds time) {
  return WithPayload(std::move(status), kRetryAfterUrl, fmt::format("{}", time.count()));
}

std::optional<std::chrono::milliseconds> RetryAfterOf(const absl::Status& status) {
  const auto text = Payload(status, kRetryAfterUrl);
  if (!text.has_value()) return std::nullopt;
  std::int64_t count = 0;
  std::from_chars(text->data(), text->data() + text->size(), count);
  return std::chrono::milliseconds(count);
}

absl::Status ServerStarting() {
  return WithRetryAfter(
      WithReason(absl::UnavailableError("the server is starting and not ready yet; ask again"),
                 "SERVER_STARTING"),
      kStartingRetry);
}

absl::Status WithStudyId(absl::Status status, const std::string& study_id) {
  return WithPayload(std::move(status), kStudyIdUrl, study_id);
}

std::optional<std::string> StudyIdOf(const absl::Status& status) {
  return Payload(status, kStudyIdUrl);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status wire;
  const bool unknown = status.code() == absl::StatusCode::kUnknown;
  const auto code = unknown ? absl::StatusCode::kInternal : status.code();
  wire.set_code(static_cast<int>(code));
  std::string message(status.message());

  AddErrorInfo(status, wire);
  const auto violations = ShortList(status);
  if (!violations.empty()) {
    AddBadRequest(violations, wire);
    if (HeaderBytes(message) > kMaxHeaderBytes) {
      message = fmt::format("{} invalid fields", CountFields(violations));
    }
  }
  wire.set_message(ShortMessage(message));
  const auto resource_type = Payload(status, kResourceTypeUrl);
  if (resource_type.has_value()) {
    AddResourceInfo(*resource_type, Payload(status, kResourceNameUrl).value_or(""), wire);
  }
  if (const auto retry = RetryAfterOf(status)) AddRetryInfo(*retry, wire);
  if (auto infeasible = InfeasibleOf(status)) AddInfeasible(*std::move(infeasible), wire);
  return {static_cast<grpc::StatusCode>(code), wire.message(), wire.SerializeAsString()};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  absl::Status result(code, status.error_message());
  google::rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) return result;
  for (const auto& detail : wire.details()) {
    google::rpc::BadRequest bad_request;
    if (detail.UnpackTo(&bad_request)) result = InvalidFields(Violations(bad_request));
  }
  for (const auto& detail : wire.details()) result = ApplyDetail(std::move(result), detail);
  return result;
}

}  // namespace meshwright
