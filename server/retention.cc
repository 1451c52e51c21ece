#include "server/retention.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/answer_memory.h"

namespace meshwright {
namespace {

absl::Status DeleteEstimates(const StoreAccess& store, std::int64_t before_ms,
                             DeletedEstimates& deleted) {
  do {
    ASSIGN_OR_RETURN(const DeletedEstimates step, WriteTo(store, [&](Recorder& recorder) {
                       return recorder.DeleteEstimates(before_ms, deleted.last_study);
                     }));
    deleted.plan_count += step.plan_count;
    deleted.event_count += step.event_count;
    deleted.last_study = step.last_study;
  } while (!deleted.last_study.empty());
  return absl::OkStatus();
}

std::int64_t DaysAgoMs(int days) {
  const auto time = std::chrono::system_clock::now() - std::chrono::hours(24) * days;
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

void ForgetEstimates(const Engine& engine, int keep_days) {
  DeletedEstimates deleted;
  const absl::Status status = DeleteEstimates(engine.store(), DaysAgoMs(keep_days), deleted);
  if (!status.ok()) {
    spdlog::error("event=retention_failed reason={} what=\"{}\"", Reason(status),
                  std::string(status.message()));
  } else if (deleted.plan_count + deleted.event_count > 0) {
    // An answer that is given again names a study that has all of its plans.
    engine.answers().Clear();
    spdlog::info("event=estimates_forgotten plans={} events={}", deleted.plan_count,
                 deleted.event_count);
  }
}

// Deletes audit events that are too old.
void ForgetAudit(const Engine& engine, int keep_days) {
  const std::int64_t before_ms = DaysAgoMs(keep_days);
  std::int64_t total = 0;
  absl::StatusOr<std::int64_t> deleted = 0;
  do {
    deleted = WriteTo(engine.store(), [before_ms](Recorder& recorder) {
      return recorder.DeleteAuditEvents(before_ms);
    });
    total += deleted.value_or(0);
  } while (deleted.value_or(0) > 0);
  if (!deleted.ok()) {
    spdlog::error("event=retention_failed reason={} what=\"{}\"", Reason(deleted.status()),
                  std::string(deleted.status().message()));
  } else if (total > 0) {
    spdlog::info("event=audit_forgotten events={}", total);
  }
}

}  // namespace

void DeleteWhatIsOld(const Flags& flags, const Engine& engine) {
  if (flags.keep_estimates_days) ForgetEstimates(engine, *flags.keep_estimates_days);
  ForgetAudit(engine, flags.keep_audit_days);
}

}  // namespace meshwright
