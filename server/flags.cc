#include "server/flags.h"

#include <CLI/CLI.hpp>

#include "server/version/version.h"

namespace meshwright {
namespace {

void DeclareListeners(CLI::App& app, Flags& flags) {
  app.add_option("--listen", flags.server.listen, "HOST:PORT (port 0: any free one) or unix:/path")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_flag("--insecure-listen", flags.server.allows_other_hosts,
               "allow an address that other hosts can reach without TLS and known callers");
  app.add_option("--callers", flags.callers,
                 "file with a line for each caller: a name, a role (viewer, submitter, operator, "
                 "admin), and sha256:DIGEST of a token or cert:NAME (everybody may do everything)")
      ->type_name("FILE");
  app.add_option("--tls-cert", flags.tls.certificate,
                 "PEM file with the server's certificate; needs --tls-key (no TLS)")
      ->type_name("FILE");
  app.add_option("--tls-key", flags.tls.private_key, "PEM file with its private key")
      ->type_name("FILE");
  app.add_option("--tls-client-ca", flags.tls.client_authority,
                 "PEM file of the authority that signs clients' certificates; needs --tls-cert")
      ->type_name("FILE");
  app.add_option("--http", flags.http,
                 "HOST:PORT of this machine for the dashboard and its API, as 127.0.0.1:8080 "
                 "(none)")
      ->type_name("HOST:PORT");
  app.add_flag("--http-writes", flags.allows_http_writes,
               "let every user of this machine create, change and cancel studies over HTTP; needs "
               "--http");
  app.add_option("--metrics", flags.metrics,
                 "HOST:PORT of this machine for a listener with /metrics only (none); --http "
                 "serves /metrics too")
      ->type_name("HOST:PORT");
}

void DeclareStore(CLI::App& app, Flags& flags) {
  app.add_option("--db", flags.store,
                 "history: an SQLite file, or a PostgreSQL database as postgresql://... without a "
                 "password (meshwright/history.db in $XDG_STATE_HOME or ~/.local/state)")
      ->type_name("STORE");
  app.add_option(
         "--keep-estimates-days", flags.keep_estimates_days,
         "delete the progress and all ranked plans except the best of studies that ended this "
         "many days ago; measurements are always kept (delete nothing)")
      ->type_name("DAYS")
      ->check(CLI::Range(1, 36500));
  app.add_option("--keep-audit-days", flags.keep_audit_days,
                 "delete audit events, which say who has called what, after this many days")
      ->type_name("DAYS")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str();
  app.add_option("--backup-folder", flags.backups.folder,
                 "folder for copies of the history, which must exist; best on another disk (none)")
      ->type_name("FOLDER");
  app.add_option("--backup-hours", flags.backups.hours, "hours between two copies")
      ->type_name("HOURS")
      ->check(CLI::Range(1, 8760))
      ->capture_default_str();
  app.add_option("--backup-count", flags.backups.count,
                 "copies that are kept; older ones are deleted")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--study-lease-seconds", flags.study_lease_seconds,
                 "on PostgreSQL, the time after which another server takes over the studies of one "
                 "that does not answer")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  app.add_option("--min-free-mib", flags.min_free_mib,
                 "free MiB on the file system of the history below which health checks say "
                 "NOT_SERVING")
      ->type_name("MIB")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
}

}  // namespace

void DeclareFlags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", VersionText("meshwrightd"))->configurable(false);
  DeclareListeners(app, flags);
  DeclareStore(app, flags);
  app.add_option("--chips", flags.chips, "folder with the site's own chip files")
      ->type_name("FOLDER");
  app.add_option("--cost-models", flags.cost_models,
                 "folder with a JSON manifest for each vendor's cost model that questions may name")
      ->type_name("FOLDER");
  app.add_flag("--allow-jobs", flags.allows_jobs,
               "allow studies to run the jobs of --job-templates, as this program's user; needs "
               "--callers or a Unix socket, and another user than root");
  app.add_option("--job-templates", flags.job_templates,
                 "folder with a JSON file NAME.json for each job that studies may name: its paths, "
                 "command and engine (none)")
      ->type_name("FOLDER");
  app.add_flag(
      "--insecure-jobs", flags.allows_insecure_jobs,
      "allow jobs without --callers, Unix socket and --job-templates, and as root: everybody "
      "who can connect can then run any command");
  app.add_option("--study-device-hours", flags.study_device_hours,
                 "device hours that the jobs of one study may take; a study has to state a budget "
                 "within it (no limit)")
      ->type_name("HOURS")
      ->check(CLI::Range(0.001, 1e9));
  app.add_option("--caller-device-hours", flags.caller_device_hours,
                 "device hours that the jobs of one caller's studies may take in 24 hours; a study "
                 "has to state a budget within it (no limit)")
      ->type_name("HOURS")
      ->check(CLI::Range(0.001, 1e9));
  app.add_option("--caller-studies", flags.caller_studies,
                 "studies of one caller that may wait, run or be paused at a time")
      ->type_name("COUNT")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option(
         "--drain-seconds", flags.drain_seconds,
         "after SIGTERM or SIGINT, the time that running calls have to end; later the server "
         "cancels them")
      ->type_name("SECONDS")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "level of the log on stderr")
      ->type_name("LEVEL")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_flag("--check-config", flags.checks_config,
               "read all that the flags and the file name, say what is wrong, and end")
      ->configurable(false);
  app.add_flag("--print-config", flags.prints_config,
               "print a configuration file with every key and its default, and end")
      ->configurable(false);
}

std::vector<std::string> FlagConflicts(const Flags& flags) {
  std::vector<std::string> conflicts;
  const ServerTls& tls = flags.tls;
  if (!tls.certificate.empty() && tls.private_key.empty()) {
    conflicts.emplace_back("tls-cert needs tls-key");
  }
  if (!tls.private_key.empty() && tls.certificate.empty()) {
    conflicts.emplace_back("tls-key needs tls-cert");
  }
  if (!tls.client_authority.empty() && tls.certificate.empty()) {
    conflicts.emplace_back("tls-client-ca needs tls-cert and tls-key");
  }
  if (flags.allows_http_writes && flags.http.empty()) {
    conflicts.emplace_back("http-writes needs http");
  }
  const bool is_database = flags.store.find("://") != std::string::npos;
  if (!flags.backups.folder.empty() && is_database) {
    conflicts.emplace_back(
        "backup-folder copies a file, and db names a PostgreSQL database; pg_dump copies it");
  }
  return conflicts;
}

}  // namespace meshwright
