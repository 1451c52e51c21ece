#include "server/rpc/calls/answer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "proto/json/text_fields.h"
#include "search_space/base/status.h"
#include "server/auth/callers.h"
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

absl::Status RunCall(const Reception& reception, const ArrivedCall& call,
                     const std::function<absl::Status()>& work) {
  absl::Status status = Guard(call.method, call.request, work);
  EndCall(reception, call, status);
  return status;
}

ArrivedCall Arrive(const IncomingCall& call) {
  return {.method = call.method,
          .protocol = "grpc",
          .request = call.request,
          .response = call.response,
          .caller = CallerOf(call.reception.callers, call.context),
          .peer = call.context.peer()};
}

grpc::ServerUnaryReactor* Answer(const IncomingCall& call,
                                 const std::function<absl::Status()>& work) {
  return AnswerCaller(call, [&work](const std::optional<KnownCaller>&) { return work(); });
}

grpc::ServerUnaryReactor* AnswerCaller(
    const IncomingCall& call,
    const std::function<absl::Status(const std::optional<KnownCaller>&)>& work) {
  const ArrivedCall arrived = Arrive(call);
  absl::Status status = Admit(call.reception.callers, arrived);
  if (status.ok()) {
    status = RunCall(call.reception, arrived, [&] { return work(arrived.caller); });
  } else {
    EndCall(call.reception, arrived, status);
  }
  grpc::ServerUnaryReactor* reactor = call.context.DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace meshwright
