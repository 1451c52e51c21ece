#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/callers.h"
#include "server/engine/queue/quota.h"
#include "server/flags.h"
#include "server/rpc/services/job_templates.h"

namespace meshwright {

// Reads the file of callers. Returns null for no file: everybody may do everything.
absl::StatusOr<std::shared_ptr<KnownCallers>> ReadCallers(const std::string& path);

// Lists of a running server that can be read again.
struct Reloadable {
  KnownCallers* callers = nullptr;  // null: there is no such file
  KnownTemplates* templates = nullptr;
};

// Reads the files of the lists again, and checks the files of TLS, which are read again anyway.
// Files with a mistake change nothing. What is wrong is logged.
void Reload(const Flags& flags, const Reloadable& lists);

// Checks that a server may run jobs, which do whatever their requests say as this program's user:
// INVALID_ARGUMENT names each condition that is not met.
absl::Status CheckJobsAreGuarded(const std::string& callers, const std::string& listen);

// Returns the jobs that studies may ask for. Reads the templates, if there are some.
absl::StatusOr<JobRules> JobRulesOf(const Flags& flags);

// Returns the limits of what one caller's studies may take.
StudyQuota QuotaOf(const Flags& flags);

}  // namespace meshwright
