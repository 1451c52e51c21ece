#include "server/engine/followers.h"

#include <iterator>
#include <utility>
#include <vector>

#include "recorder/page_token.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

bool EndsStudy(const EventRecord& event) {
  if (event.kind != kStateEventKind) return false;
  const auto state = ParseChoice<StudyState>(event.payload);
  return state.has_value() && IsTerminal(*state);
}

}  // namespace

absl::StatusOr<std::int64_t> Followers::Add(const Recorder& recorder, std::string_view study_id,
                                            std::int64_t after_revision, EventSink sink) {
  ASSIGN_OR_RETURN(const StudyRecord study, recorder.GetStudy(study_id));
  Follower follower = {
      .study_id = study.id, .last_revision = after_revision, .sink = std::move(sink)};
  const std::int64_t id = next_id_++;
  // Who has seen the last event of a study that has ended gets no event, only the end.
  if (IsTerminal(study.state) && after_revision >= study.revision) {
    follower.sink(std::nullopt);
  } else if (CatchUp(recorder, follower)) {
    followers_.emplace(id, std::move(follower));
  }
  return id;
}

void Followers::Publish(const Recorder& recorder, std::string_view study_id) {
  for (auto it = followers_.begin(); it != followers_.end();) {
    const bool is_kept = it->second.study_id != study_id || CatchUp(recorder, it->second);
    it = is_kept ? std::next(it) : followers_.erase(it);
  }
}

void Followers::Close() {
  for (const auto& [id, follower] : followers_) follower.sink(std::nullopt);
  followers_.clear();
}

bool Followers::CatchUp(const Recorder& recorder, Follower& follower) {
  for (;;) {
    const auto events =
        recorder.ListEvents(follower.study_id, follower.last_revision, kMaxPageSize);
    if (!events.ok()) {
      follower.sink(std::nullopt);
      return false;
    }
    for (const EventRecord& event : *events) {
      follower.sink(event);
      follower.last_revision = event.revision;
      if (EndsStudy(event)) {
        follower.sink(std::nullopt);
        return false;
      }
    }
    if (std::ssize(*events) < kMaxPageSize) return true;
  }
}

absl::StatusOr<int> CrashCount(const Recorder& recorder, std::string_view study_id) {
  int count = 0;
  std::int64_t revision = 0;
  bool is_running = false;
  for (;;) {
    ASSIGN_OR_RETURN(const auto events, recorder.ListEvents(study_id, revision, kMaxPageSize));
    if (events.empty()) return count;
    for (const EventRecord& event : events) {
      revision = event.revision;
      if (event.kind == kShutdownEventKind) is_running = false;
      if (event.kind == kTrialEventKind) count = 0;  // a study that gets on is not the cause
      if (event.kind != kStateEventKind) continue;
      const auto state = ParseChoice<StudyState>(event.payload);
      if (state == StudyState::kInterrupted && is_running) ++count;
      is_running = state == StudyState::kRunning;
    }
  }
}

}  // namespace meshwright
