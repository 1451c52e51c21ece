#include "server/http/request_checks.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "server/auth/permissions.h"
#include "server/rpc/calls/admission.h"

namespace meshwright {
namespace {

// Returns the host of "HOST", "HOST:PORT" or "[HOST]:PORT".
std::string_view HostOf(std::string_view text) {
  if (text.starts_with('[')) return text.substr(0, text.find(']') + 1);
  return text.substr(0, text.find(':'));
}

bool IsThisMachine(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  // Only addresses, no names such as 127.evil.example.
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos;
}

// Returns true if the page came from this host, by either scheme.
bool IsFrom(const std::string& origin, const std::string& host) {
  return !host.empty() && (origin == "http://" + host || origin == "https://" + host);
}

}  // namespace

// A page of another site cannot send X-Forwarded-Host without asking first, and is never allowed
// to.
absl::Status CheckOrigin(const HttpRequest& request) {
  if (!IsThisMachine(HostOf(request.host))) {
    return WithReason(absl::PermissionDeniedError(fmt::format(
                          "host '{}' is not this machine: use localhost or 127.0.0.1, or let the "
                          "proxy send one of them as Host",
                          CleanText(request.host, {}))),
                      "FOREIGN_HOST");
  }
  const bool is_own = !request.origin.has_value() || IsFrom(*request.origin, request.host) ||
                      IsFrom(*request.origin, request.forwarded_host);
  if (is_own) return absl::OkStatus();
  return WithReason(absl::PermissionDeniedError(fmt::format(
                        "a page of '{}' may not read this server", CleanText(*request.origin, {}))),
                    "FOREIGN_ORIGIN");
}

std::optional<KnownCaller> CallerOf(const KnownCallers* callers, const HttpRequest& request) {
  if (callers == nullptr) return std::nullopt;
  const auto token = TokenOf(request.authorization);
  return token.has_value() ? callers->Current()->OfToken(*token) : std::nullopt;
}

absl::Status AdmitReader(const KnownCallers* callers, const HttpRequest& request) {
  if (callers == nullptr) return absl::OkStatus();
  return CheckRole(CallerOf(callers, request), Role::kViewer, request.path);
}

absl::Status AdmitChange(const KnownCallers* callers, const HttpRequest& http,
                         std::string_view method, const google::protobuf::Message& request) {
  if (callers == nullptr) return absl::OkStatus();
  return CheckCall(CallerOf(callers, http), method, request);
}

absl::Status ReadOnly(const HttpRequest& request) {
  return WithReason(
      absl::UnimplementedError(fmt::format("method {}: nothing can be changed here over HTTP; "
                                           "meshwrightd --http-writes lets studies be changed",
                                           request.method)),
      "READ_ONLY");
}

}  // namespace meshwright
