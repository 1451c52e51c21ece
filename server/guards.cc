#include "server/guards.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/rpc/tls.h"

namespace meshwright {

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

void Reload(const std::string& path, const std::optional<ServerTls>& tls, KnownCallers* callers) {
  const auto report = [](const absl::Status& status) {
    spdlog::error("event=reload_failed reason={} what=\"{}\"", Reason(status),
                  std::string(status.message()));
  };
  if (callers != nullptr) {
    auto list = CallerList::Load(path);
    if (list.ok()) {
      callers->Replace(*std::move(list));
      spdlog::info("event=callers_reloaded");
    } else {
      report(list.status());
    }
  }
  if (tls.has_value()) {
    // gRPC reads the files by itself, without a word.
    const absl::Status checked = CheckTls(*tls);
    if (checked.ok()) {
      spdlog::info("event=certificates_checked");
    } else {
      report(checked);
    }
  }
}

absl::StatusOr<JobRules> JobRulesOf(const Flags& flags) {
  JobRules rules = {.takes_stated_jobs = flags.allows_insecure_jobs || !flags.allows_jobs};
  if (flags.job_templates.empty()) return rules;
  ASSIGN_OR_RETURN(rules.templates, JobTemplates::Load(flags.job_templates));
  return rules;
}

}  // namespace meshwright
