#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/backups.h"
#include "server/engine/queue/quota.h"
#include "server/rpc/server.h"
#include "server/rpc/tls.h"

namespace CLI {
class App;
}

namespace meshwright {

// The flags of meshwrightd, each of which is also a key of its configuration file.
struct Flags {
  ServerOptions server = {};
  std::string http = {};  // empty: none
  bool allows_http_writes = false;
  std::string metrics = {};                     // empty: no listener of its own
  std::string store = {};                       // empty: DefaultStorePath()
  std::optional<int> keep_estimates_days = {};  // absent: for ever
  int keep_audit_days = 365;
  BackupPlan backups = {};
  int min_free_mib = 64;
  int study_lease_seconds = 30;
  int drain_seconds = 5;
  std::string chips = {};
  std::string cost_models = {};    // empty: none
  std::string job_templates = {};  // folder; empty: none
  bool allows_jobs = false;
  bool allows_insecure_jobs = false;
  std::optional<double> study_device_hours = {};   // absent: no limit
  std::optional<double> caller_device_hours = {};  // in 24 hours; absent: no limit
  std::int64_t caller_studies = kOpenStudiesOfCreator;
  std::string callers = {};  // file; empty: everybody may do everything
  ServerTls tls = {};        // names of files; no certificate: no TLS
  std::string log_level = "info";
  bool checks_config = false;
  bool prints_config = false;
};

void DeclareFlags(CLI::App& app, Flags& flags);

// Returns a sentence for each flag that does not go with the others.
std::vector<std::string> FlagConflicts(const Flags& flags);

}  // namespace meshwright
