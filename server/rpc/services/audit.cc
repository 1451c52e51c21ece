#include "server/rpc/services/audit.h"

#include <spdlog/spdlog.h>

#include <string>

#include "recorder/call_records.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/wall_clock.h"

namespace meshwright {

std::function<void(const AuditedCall&)> AuditTo(const Engine& engine) {
  return [&engine](const AuditedCall& call) {
    const AuditRecord event = {.time_ms = NowMs(),
                               .caller = call.caller,
                               .role = call.role,
                               .peer = call.peer,
                               .protocol = std::string(call.protocol),
                               .method = std::string(call.method),
                               .study_id = call.study_id,
                               .code = call.code,
                               .reason = call.reason};
    const absl::Status kept = engine.store().write(
        [&event](Recorder& recorder) { return recorder.AppendAuditEvent(event); });
    if (kept.ok()) return;
    spdlog::error("event=audit_failed method={} study={} code={} reason={} what=\"{}\"",
                  call.method, call.study_id, call.code, Reason(kept), std::string(kept.message()));
  };
}

}  // namespace meshwright
