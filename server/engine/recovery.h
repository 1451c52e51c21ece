#pragma once

#include <string>

#include "absl/status/status.h"
#include "recorder/recorder.h"
#include "server/engine/engine_options.h"
#include "server/engine/study_queue.h"

namespace meshwright {

// Resumes the studies that earlier processes left behind, when an engine starts. They are shown as
// interrupted and queued again, the oldest first. A study that has crashed its process three times
// fails. `owner` is this process.
absl::Status ResumeStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies);

}  // namespace meshwright
