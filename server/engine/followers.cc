#include "server/engine/followers.h"

#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"

namespace meshwright {

absl::StatusOr<std::int64_t> Followers::Add(std::string_view study_id, std::int64_t after_revision,
                                            EventSink sink) {
  const std::lock_guard lock(mutex_);
  ASSIGN_OR_RETURN(const StudyRecord study, ReadFrom(store_, [&](const Recorder& recorder) {
                     return recorder.GetStudy(study_id);
                   }));
  const std::int64_t id = next_id_++;
  // A reader that has already seen the last event of a finished study gets only the end.
  if (IsTerminal(study.state) && after_revision >= study.revision) {
    sink(std::nullopt);
    return id;
  }
  FollowedStudy replayed = {.last_revision = after_revision};
  replayed.followers.emplace(id,
                             Follower{.last_revision = after_revision, .sink = std::move(sink)});
  if (!CatchUp(study.id, replayed)) return id;
  // The reader has seen the end, but not the end of a trial that came after it.
  if (IsTerminal(study.state) && replayed.last_revision >= study.revision) {
    End(replayed);
    return id;
  }
  const auto [followed, is_new] = studies_.try_emplace(study.id);
  if (is_new) followed->second.last_revision = replayed.last_revision;
  followed->second.followers.merge(replayed.followers);
  return id;
}

void Followers::Remove(std::int64_t subscription) {
  const std::lock_guard lock(mutex_);
  for (auto study = studies_.begin(); study != studies_.end(); ++study) {
    if (study->second.followers.erase(subscription) == 0) continue;
    if (study->second.followers.empty()) studies_.erase(study);
    return;
  }
}

void Followers::Publish(const std::string& study_id) {
  const std::lock_guard lock(mutex_);
  const auto study = studies_.find(study_id);
  if (study != studies_.end() && !CatchUp(study_id, study->second)) studies_.erase(study);
}

absl::Status Followers::PublishAll() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, study] : studies_) ids.push_back(id);
  ASSIGN_OR_RETURN(const auto revisions, ReadFrom(store_, [&](const Recorder& recorder) {
                     return recorder.LastRevisions(ids);
                   }));
  for (auto study = studies_.begin(); study != studies_.end();) {
    const auto last = revisions.find(study->first);
    // The events of a deleted study have gone with it.
    const bool is_new = last == revisions.end() || last->second > study->second.last_revision;
    study =
        !is_new || CatchUp(study->first, study->second) ? std::next(study) : studies_.erase(study);
  }
  return absl::OkStatus();
}

void Followers::Close() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, study] : studies_) End(study);
  studies_.clear();
}

bool Followers::CatchUp(const std::string& study_id, FollowedStudy& study) {
  // A study whose trials run again has events after its former end.
  bool has_ended = false;
  for (;;) {
    auto events = ReadFrom(store_, [&](const Recorder& recorder) {
      return recorder.ListEvents(study_id, study.last_revision, kMaxPageSize);
    });
    if (!events.ok()) {
      End(study);
      return false;
    }
    const bool is_last_page = std::ssize(*events) < kMaxPageSize;
    for (EventRecord& read : *events) {
      const std::optional<EventRecord> event = std::move(read);
      study.last_revision = event->revision;
      for (auto& [id, follower] : study.followers) {
        if (follower.last_revision >= event->revision) continue;
        follower.sink(event);
        follower.last_revision = event->revision;
      }
      if (event->kind == kStateEventKind) has_ended = EndsStudy(*event);
    }
    if (!is_last_page) continue;
    if (has_ended) End(study);
    return !has_ended;
  }
}

void Followers::End(const FollowedStudy& study) {
  for (const auto& [id, follower] : study.followers) follower.sink(std::nullopt);
}

}  // namespace meshwright
