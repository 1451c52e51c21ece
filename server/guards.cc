#include "server/guards.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
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

namespace {

// Logs what has been read again, or why it could not be.
void ReportReload(std::string_view event, const absl::Status& status) {
  if (status.ok()) {
    spdlog::info("event={}", event);
  } else {
    spdlog::error("event=reload_failed reason={} what=\"{}\"", Reason(status),
                  std::string(status.message()));
  }
}

}  // namespace

void Reload(const Flags& flags, const Reloadable& lists) {
  if (lists.callers != nullptr) {
    auto list = CallerList::Load(flags.callers);
    ReportReload("callers_reloaded", list.status());
    if (list.ok()) lists.callers->Replace(*std::move(list));
  }
  if (!flags.job_templates.empty()) {
    auto read = JobTemplates::Load(flags.job_templates);
    ReportReload("job_templates_reloaded", read.status());
    if (read.ok()) lists.templates->Replace(*std::move(read));
  }
  // gRPC reads the files by itself, without a word.
  if (!flags.tls.certificate.empty()) ReportReload("certificates_checked", CheckTls(flags.tls));
}

absl::StatusOr<JobRules> JobRulesOf(const Flags& flags) {
  JobRules rules = {.takes_stated_jobs = flags.allows_insecure_jobs || !flags.allows_jobs};
  // A study cannot take more than its caller may in a day.
  for (const auto& hours : {flags.study_device_hours, flags.caller_device_hours}) {
    if (!hours.has_value()) continue;
    const double seconds = kSecondsPerHour * *hours;
    rules.study_device_seconds = std::min(seconds, rules.study_device_seconds.value_or(seconds));
  }
  if (flags.job_templates.empty()) return rules;
  ASSIGN_OR_RETURN(JobTemplates templates, JobTemplates::Load(flags.job_templates));
  rules.templates->Replace(std::move(templates));
  return rules;
}

StudyQuota QuotaOf(const Flags& flags) {
  StudyQuota quota = {.open_study_count = flags.caller_studies};
  if (flags.caller_device_hours.has_value()) {
    quota.device_time_per_day = Seconds(kSecondsPerHour * *flags.caller_device_hours);
  }
  return quota;
}

}  // namespace meshwright
