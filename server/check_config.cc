#include "server/check_config.h"

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "server/backups.h"
#include "server/guards.h"
#include "server/http/listen_address.h"
#include "server/plugins/manifest.h"
#include "server/rpc/listen_socket.h"
#include "server/rpc/tls.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

// The server makes and upgrades stores itself, so only a file that it would refuse is wrong.
absl::Status CheckStore(const std::string& path) {
  const absl::Status opened = Recorder::Open({.path = path, .read_only = true}).status();
  const bool is_well = Reason(opened) == "NO_STORE" || Reason(opened) == "OLDER_STORE";
  return is_well ? absl::OkStatus() : opened;
}

}  // namespace

std::vector<absl::Status> CheckConfig(const Flags& flags) {
  std::vector<absl::Status> wrong;
  const auto add = [&wrong](const absl::Status& status) {
    if (!status.ok()) wrong.push_back(status);
  };
  const bool is_guarded = !flags.tls.certificate.empty() && !flags.callers.empty();
  add(CheckListen(flags.server.listen, flags.server.allows_other_hosts || is_guarded));
  if (!flags.http.empty()) add(ReadListenAddress(flags.http).status());
  if (!flags.metrics.empty()) add(ReadListenAddress(flags.metrics, "metrics").status());
  add(ReadCallers(flags.callers).status());
  if (!flags.tls.certificate.empty()) add(CheckTls(flags.tls));
  add(CheckStore(flags.store));
  if (!flags.backups.folder.empty()) add(CheckBackupFolder(flags.backups.folder));
  add(LoadKnowledge(flags.chips).status());
  if (!flags.cost_models.empty()) add(LoadManifests(flags.cost_models).status());
  add(JobRulesOf(flags).status());
  if (flags.allows_jobs && !flags.allows_insecure_jobs) {
    add(CheckJobsAreGuarded(flags.callers, flags.server.listen));
  }
  return wrong;
}

}  // namespace meshwright
