#pragma once

#include <string>

#include "absl/status/status.h"
#include "recorder/recorder.h"
#include "server/engine/study_codec.h"
#include "server/engine/study_queue.h"

namespace meshwright {

// Takes up the studies that earlier processes left behind, when an engine starts: they are shown as
// interrupted and queued again, the oldest first; one that has taken its process down three times
// fails. `owner` is this process.
absl::Status TakeUpStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies);

}  // namespace meshwright
