#include "server/rpc/calls/admission.h"

#include <grpcpp/security/auth_context.h>

#include <string>

#include "meshwright/v1/service.pb.h"
#include "server/auth/permissions.h"

namespace meshwright {
namespace {

std::string_view View(const grpc::string_ref& text) { return {text.data(), text.size()}; }

std::optional<KnownCaller> FindCaller(const CallerList& callers,
                                      const grpc::CallbackServerContext& call) {
  if (call.peer().starts_with("unix:")) {
    return KnownCaller{.name = "the server's user", .role = Role::kAdmin};
  }
  const auto& metadata = call.client_metadata();
  const auto field = metadata.find("authorization");
  if (field != metadata.end()) {
    const auto token = TokenOf(View(field->second));
    return token.has_value() ? callers.OfToken(*token) : std::nullopt;
  }
  const auto connection = call.auth_context();
  if (connection == nullptr || !connection->IsPeerAuthenticated()) return std::nullopt;
  for (const grpc::string_ref& name : connection->GetPeerIdentity()) {
    if (const auto caller = callers.OfCertificate(View(name))) return caller;
  }
  return std::nullopt;
}

// Some requests need more than their method does.
Role RoleFor(Role of_method, const google::protobuf::Message& request) {
  const auto* const recommend = dynamic_cast<const v1::RecommendRequest*>(&request);
  if (recommend != nullptr && !recommend->is_unrecorded()) return Role::kSubmitter;
  const auto* const study = dynamic_cast<const v1::CreateStudyRequest*>(&request);
  if (study != nullptr && study->question().has_trials()) return Role::kOperator;
  return of_method;
}

}  // namespace

absl::Status CheckCall(const std::optional<KnownCaller>& caller, std::string_view method,
                       const google::protobuf::Message& request) {
  const Role of_method = NeededRole(method).value_or(Role::kAdmin);
  return CheckRole(caller, RoleFor(of_method, request), method);
}

std::optional<KnownCaller> CallerOf(const KnownCallers* callers,
                                    const grpc::CallbackServerContext& call) {
  if (callers == nullptr) return std::nullopt;
  return FindCaller(*callers->Current(), call);
}

absl::Status Admit(const KnownCallers* callers, const ArrivedCall& call) {
  if (callers == nullptr) return absl::OkStatus();
  return CheckCall(call.caller, call.method, call.request);
}

}  // namespace meshwright
