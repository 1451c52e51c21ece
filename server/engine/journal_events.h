#pragma once

#include <functional>
#include <optional>

#include "recorder/records.h"

namespace meshwright {

// The kinds of events that the engine writes to a study's journal, in addition to the recorder's
// own (kStateEventKind).
inline constexpr char kProgressEventKind[] = "progress";
inline constexpr char kShutdownEventKind[] = "shutdown";
inline constexpr char kTrialEventKind[] = "trial";  // a trial has ended; the payload is its number

// Returns true if the event is the end of its study. Others come after it only if trials that have
// failed run again, or if a trial ended later than its study.
bool EndsStudy(const EventRecord& event);

// Called with each new event of a study, and once with nullopt when no more will come. The call
// comes from the thread that caused the event, and no other follower can be served meanwhile. So it
// must return at once and must neither subscribe nor unsubscribe. A receiver that is slower than
// the study keeps a bounded queue of its own.
using EventSink = std::function<void(const std::optional<EventRecord>&)>;

}  // namespace meshwright
