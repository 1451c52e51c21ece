#include "server/guards.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/rpc/connection_settings.h"
#include "server/rpc/tls.h"

namespace meshwright {
namespace {

absl::StatusOr<std::string> ReadPem(std::string_view flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return InvalidFields(
        {{.field = std::string(flag), .description = fmt::format("'{}'; cannot be read", path)}});
  }
  return text.str();
}

}  // namespace

absl::StatusOr<std::optional<ServerTls>> ReadTls(const ServerTls& files) {
  if (files.certificate.empty()) return std::nullopt;
  ServerTls tls;
  ASSIGN_OR_RETURN(tls.certificate, ReadPem("tls-cert", files.certificate));
  ASSIGN_OR_RETURN(tls.private_key, ReadPem("tls-key", files.private_key));
  if (!files.client_authority.empty()) {
    ASSIGN_OR_RETURN(tls.client_authority, ReadPem("tls-client-ca", files.client_authority));
  }
  RETURN_IF_ERROR(CheckTls(tls));
  return tls;
}

absl::Status CheckJobsAreGuarded(const std::string& callers, const std::string& listen) {
  std::vector<FieldViolation> violations;
  if (callers.empty() && !listen.starts_with("unix:")) {
    violations.push_back({.field = "allow-jobs",
                          .description = "everybody who can connect could run commands; state "
                                         "--callers, listen on a Unix socket, or allow it with "
                                         "--insecure-jobs"});
  }
  if (geteuid() == 0) {
    violations.push_back({.field = "allow-jobs",
                          .description = "jobs would run as root; start the server as another "
                                         "user, or allow it with --insecure-jobs"});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

absl::StatusOr<std::shared_ptr<KnownCallers>> ReadCallers(const std::string& path) {
  if (path.empty()) return nullptr;
  ASSIGN_OR_RETURN(CallerList callers, CallerList::Load(path));
  return std::make_shared<KnownCallers>(std::move(callers));
}

void Reload(const std::string& path, KnownCallers* callers) {
  if (callers == nullptr) return;
  auto list = CallerList::Load(path);
  if (!list.ok()) {
    spdlog::error("event=reload_failed reason={} what=\"{}\"", Reason(list.status()),
                  std::string(list.status().message()));
    return;
  }
  callers->Replace(*std::move(list));
  spdlog::info("event=callers_reloaded");
}

}  // namespace meshwright
