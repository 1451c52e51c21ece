#include "server/rpc/calls/caller_counts.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/convert/wire_time.h"

namespace meshwright {

void CallerCounts::NoteCall(const EndedCall& call, std::int64_t now_ms) {
  const std::lock_guard lock(mutex_);
  if (!call.role.has_value()) {
    if (call.code == absl::StatusCode::kUnauthenticated) ++unknown_;
    return;
  }
  Count& count = counts_[{.name = call.caller, .role = *call.role}];
  ++count.calls;
  count.last_ms = now_ms;
  if (call.code == absl::StatusCode::kPermissionDenied) {
    ++count.refused;
  } else if (call.code != absl::StatusCode::kOk) {
    ++count.failed;
  }
}

v1::Caller CallerCounts::ToWire(const KnownCaller& caller, const Count& count, bool is_listed) {
  v1::Caller wire;
  wire.set_name(caller.name);
  wire.set_role(std::string(Word(caller.role)));
  wire.set_call_count(count.calls);
  wire.set_refused_count(count.refused);
  wire.set_failed_count(count.failed);
  if (count.calls > 0) wire.set_last_call_time(WireTime(count.last_ms));
  wire.set_is_listed(is_listed);
  return wire;
}

v1::ListCallersResponse CallerCounts::List(const KnownCallers* callers) const {
  v1::ListCallersResponse response;
  response.set_counted_from(WireTime(start_ms_));
  if (callers == nullptr) return response;
  response.set_has_list(true);
  std::map<KnownCaller, bool> shown;  // true: it is on the list
  for (const KnownCaller& caller : callers->Current()->All()) shown.emplace(caller, true);
  const std::lock_guard lock(mutex_);
  for (const auto& [caller, count] : counts_) shown.emplace(caller, false);
  for (const auto& [caller, is_listed] : shown) {
    const auto found = counts_.find(caller);
    *response.add_callers() =
        ToWire(caller, found == counts_.end() ? Count() : found->second, is_listed);
  }
  response.set_unknown_call_count(unknown_);
  return response;
}

}  // namespace meshwright
