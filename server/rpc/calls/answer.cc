#include "server/rpc/calls/answer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "proto/json/text_fields.h"
#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/engine/study_id.h"
#include "server/rpc/calls/admission.h"
#include "server/rpc/calls/request_limits.h"

namespace meshwright {
namespace {

absl::Status Incident(std::string_view method, std::string_view what) {
  const std::string id = "incident-" + NewStudyId().substr(std::string_view("study-").size());
  spdlog::error("event=incident id={} method={} what=\"{}\"", id, method, what);
  return WithReason(absl::InternalError(fmt::format("internal error {}; see the server's log", id)),
                    "INCIDENT");
}

absl::Status Guard(std::string_view method, const google::protobuf::Message& request,
                   const std::function<absl::Status()>& work) {
  try {
    RETURN_IF_ERROR(CheckRequest(request));
    return work();
  } catch (const std::exception& e) {
    return Incident(method, e.what());
  } catch (...) {
    return Incident(method, "not a std::exception");
  }
}

}  // namespace

absl::Status CheckRequest(const google::protobuf::Message& request) {
  RETURN_IF_ERROR(CheckLimits(request));
  const std::vector<FieldViolation> mistakes = TextMistakes(request, "");
  return mistakes.empty() ? absl::OkStatus() : InvalidFields(mistakes);
}

absl::Status RunCall(std::string_view method, const google::protobuf::Message& request,
                     const std::function<absl::Status()>& work) {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = Guard(method, request, work);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (status.ok()) {
    spdlog::debug("event=call method={} code=OK ms={:.1f}", method, took.count());
  } else {
    spdlog::info("event=call method={} code={} reason={} ms={:.1f}", method,
                 absl::StatusCodeToString(status.code()), Reason(status), took.count());
  }
  return status;
}

grpc::ServerUnaryReactor* Answer(const IncomingCall& call,
                                 const std::function<absl::Status()>& work) {
  absl::Status status = Admit(call.callers, call.context, call.method, call.request);
  if (status.ok()) status = RunCall(call.method, call.request, work);
  grpc::ServerUnaryReactor* reactor = call.context.DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace meshwright
