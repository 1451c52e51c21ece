#include "server/rpc/calls/call_end.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "server/auth/permissions.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::size_t kLongestId = 64;

// Returns a text of the message by the field's name; empty if it has no such text.
std::string TextOf(const Message& message, const std::string& name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(name);
  const bool is_text = field != nullptr && !field->is_repeated() &&
                       field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return is_text ? message.GetReflection()->GetString(message, field) : "";
}

// Returns the id of the study that a message is about, or that it brings.
std::string StudyOf(const Message& message) {
  std::string id = TextOf(message, "study_id");
  if (!id.empty()) return id;
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName("study");
  const bool has_study = field != nullptr && !field->is_repeated() &&
                         field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                         message.GetReflection()->HasField(message, field);
  return has_study ? TextOf(message.GetReflection()->GetMessage(message, field), "id") : "";
}

// Returns true for a text that cannot be taken for more of the line that it stands in.
bool IsPlain(const std::string& text) {
  constexpr std::string_view kSigns = "-_.";
  return !text.empty() && text.size() <= kLongestId && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kSigns.find(c) != kSigns.npos;
  });
}

std::string StudyOf(const ArrivedCall& call, bool is_ok) {
  std::string id = StudyOf(call.request);
  if (id.empty() && is_ok && call.response != nullptr) id = StudyOf(*call.response);
  return IsPlain(id) ? id : "";
}

// Returns " key=value", or nothing for an empty value.
std::string Part(std::string_view key, std::string_view value) {
  return value.empty() ? "" : fmt::format(" {}={}", key, value);
}

// Returns the id by which the caller repeats a call, unless it could be taken for more of the line.
std::string RequestIdOf(const ArrivedCall& call) {
  std::string id = TextOf(call.request, "request_id");
  return IsPlain(id) ? id : "";
}

std::string Who(const ArrivedCall& call) {
  if (!call.caller.has_value()) return Part("peer", call.peer);
  const std::string& name = call.caller->name;
  return Part("caller", IsPlain(name) ? name : fmt::format("\"{}\"", name)) +
         Part("role", Word(call.caller->role));
}

AuditedCall AuditOf(const ArrivedCall& call, const absl::Status& status) {
  AuditedCall audited = {.peer = call.peer,
                         .protocol = call.protocol,
                         .method = call.method,
                         .study_id = StudyOf(call, status.ok()),
                         .code = absl::StatusCodeToString(status.code()),
                         .reason = status.ok() ? "" : Reason(status)};
  if (call.caller.has_value()) {
    audited.caller = call.caller->name;
    audited.role = Word(call.caller->role);
  }
  return audited;
}

}  // namespace

void EndCall(const Reception& reception, const ArrivedCall& call, const absl::Status& status) {
  EndedCall ended = {.method = call.method,
                     .protocol = call.protocol,
                     .code = status.code(),
                     .time = std::chrono::steady_clock::now() - call.time};
  if (call.caller.has_value()) {
    ended.role = call.caller->role;
    ended.caller = call.caller->name;
  }
  if (status.ok() && call.method == "Recommend" && call.response != nullptr) {
    ended.source = TextOf(*call.response, "source");
  }
  const auto level = status.ok() ? spdlog::level::debug : spdlog::level::info;
  if (spdlog::should_log(level)) {
    spdlog::log(level, "event=call method={} protocol={} code={}{} ms={:.1f}{}{}{}{}", call.method,
                call.protocol, absl::StatusCodeToString(status.code()),
                Part("reason", status.ok() ? "" : Reason(status)), 1000 * ended.time.count(),
                Who(call), Part("request_id", RequestIdOf(call)),
                Part("study", StudyOf(call, status.ok())), Part("source", ended.source));
  }
  if (reception.audit && IsAudited(call.method) && !absl::IsUnauthenticated(status)) {
    reception.audit(AuditOf(call, status));
  }
  if (reception.on_end) reception.on_end(ended);
}

}  // namespace meshwright
