#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/units.h"

namespace meshwright {

// The most studies of one creator that wait, run or are paused, unless the operator states another
// number.
inline constexpr std::int64_t kOpenStudiesOfCreator = 10'000;

inline constexpr double kSecondsPerHour = 3600;

// The time for which the device time of a job counts.
inline constexpr std::int64_t kQuotaPeriodMs = std::int64_t{24} * 60 * 60 * 1000;

// The limits of what the studies of one creator may take. Studies whose creator is not known count
// as those of one creator.
struct StudyQuota {
  std::int64_t open_study_count = kOpenStudiesOfCreator;
  // Devices x seconds of all jobs in any 24 hours; absent: no limit. A study with jobs then needs a
  // limit of its own.
  std::optional<Seconds> device_time_per_day = {};
};

// Checks that the creator of a study may have it. It runs in the write that stores the study or
// opens it again, and its error undoes that write. The study itself counts. Open studies count with
// all that their jobs may still take. A study's limit is checked before each of its trials, so its
// last trial may exceed it. Returns RESOURCE_EXHAUSTED with reason STUDY_QUOTA or
// DEVICE_TIME_QUOTA; its message says what the studies of the creator take. `time_ms` is the
// current time.
absl::Status CheckQuota(const StudyQuota& quota, const Recorder& recorder, const StudyRecord& study,
                        std::int64_t time_ms);

}  // namespace meshwright
