#include "server/engine/queue/quota.h"

#include <fmt/format.h>

#include <string>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

std::string NameOf(const StudyRecord& study) {
  return study.creator.empty() ? "callers without a name" : fmt::format("'{}'", study.creator);
}

double Hours(Seconds time) { return time.count() / kSecondsPerHour; }

}  // namespace

absl::Status CheckQuota(const StudyQuota& quota, const Recorder& recorder, const StudyRecord& study,
                        std::int64_t time_ms) {
  ASSIGN_OR_RETURN(const std::int64_t open_count, recorder.CountOpenStudies(study.creator));
  if (open_count > quota.open_study_count) {
    return WithReason(
        absl::ResourceExhaustedError(
            fmt::format("studies of {} that have not ended = {} with this one; must be at most {}",
                        NameOf(study), open_count, quota.open_study_count)),
        "STUDY_QUOTA");
  }
  if (!study.device_time_limit.has_value() || !quota.device_time_per_day.has_value()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const CreatorUse use, recorder.UseOf(study.creator, time_ms - kQuotaPeriodMs));
  if (use.used + use.promised <= *quota.device_time_per_day) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(fmt::format(
          "trials.max_device_seconds = {}; the jobs of {} took {:.4g} device hours in the last 24 "
          "hours, and those of open studies may take {:.4g} more with this one; together must be "
          "at most {:.4g}",
          study.device_time_limit->count(), NameOf(study), Hours(use.used), Hours(use.promised),
          Hours(*quota.device_time_per_day))),
      "DEVICE_TIME_QUOTA");
}

}  // namespace meshwright
