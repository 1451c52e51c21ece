#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/recorder.h"
#include "server/engine/engine_options.h"
#include "server/engine/queue/study_queue.h"

namespace meshwright {

// Resumes the studies that earlier processes left behind, when an engine starts. They are shown as
// interrupted and queued again, the oldest first. A study that has crashed its process three times
// fails. `owner` is this process.
absl::Status ResumeStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies);

// Does the same on a store that several servers share, at any time: for the studies whose servers
// have not renewed their leases in time, or have stopped in order. All servers find them queued.
absl::Status TakeOverStudies(Recorder& recorder, const std::string& owner);

// Returns the failure with which a study ends as soon as it begins, because it has crashed its
// process too often but has a job that must be ended first; nullopt if it is to run.
absl::StatusOr<std::optional<absl::Status>> CrashFailure(const Recorder& recorder,
                                                         std::string_view study_id);

}  // namespace meshwright
