#include "server/engine/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "recorder/page_token.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "server/engine/journal_events.h"
#include "server/engine/stored_trials.h"
#include "server/engine/study_record.h"
#include "server/engine/wall_clock.h"
#include "server/process/owner.h"

namespace meshwright {
namespace {

// A study that was running this often when its process crashed is assumed to be the cause.
constexpr int kMaxCrashes = 3;

// Returns how often the process crashed while it ran this study, counted since the last trial that
// ended. A crash shows as a state event from running to interrupted; an orderly stop writes
// kShutdownEventKind before it.
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
      if (event.kind == kTrialEventKind) count = 0;  // a study that makes progress is not the cause
      if (event.kind != kStateEventKind) continue;
      const auto state = ParseChoice<StudyState>(event.payload);
      if (state == StudyState::kInterrupted && is_running) ++count;
      is_running = state == StudyState::kRunning;
    }
  }
}

absl::Status InterruptOrphans(Recorder& recorder, const std::string& owner, StudyQueue& studies) {
  // Only one process writes the store, and its engine is just starting. So a study with our own pid
  // was left by an earlier engine of this process.
  const auto is_alive = [&](std::string_view o) { return o != owner && IsAlive(o); };
  const auto has_job_left = [&](const std::string& id) { return HasJobLeft(recorder, id); };
  const auto orphans = recorder.InterruptOrphans(is_alive, NowMs(), has_job_left);
  if (!orphans.ok()) return orphans.status();
  for (const StudyRecord& orphan : *orphans) {
    if (orphan.state == StudyState::kCancelling) {
      studies.EndWhenItBegins(orphan.id, std::nullopt);
      studies.Push(orphan.id, Lane::kJobs);
    } else if (IsTerminal(orphan.state)) {
      RETURN_IF_ERROR(CancelOpenTrials(recorder, orphan.id, NowMs()));
    }
  }
  return absl::OkStatus();
}

// Returns the interrupted studies, the oldest first. They include those that an orderly stop
// interrupted.
absl::StatusOr<std::vector<std::string>> Interrupted(const Recorder& recorder) {
  std::vector<std::string> interrupted;
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const StudyPage page, recorder.ListStudies(kMaxPageSize, page_token));
    for (const StudyRecord& study : page.studies) {
      if (study.state == StudyState::kInterrupted) interrupted.push_back(study.id);
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  std::reverse(interrupted.begin(), interrupted.end());
  return interrupted;
}

absl::Status Requeue(Recorder& recorder, const std::string& id, const std::string& owner,
                     const StudyCodec& codec, StudyQueue& studies) {
  ASSIGN_OR_RETURN(const int crash_count, CrashCount(recorder, id));
  if (crash_count >= kMaxCrashes) {
    const auto lost = absl::InternalError(fmt::format(
        "the server was killed {} times while it ran this study, so it does not run it again",
        crash_count));
    if (!HasJobLeft(recorder, id)) return EndStudy(recorder, FailedEnding(id, lost)).status();
    studies.EndWhenItBegins(id, lost);
  }
  const auto study = recorder.UpdateStudy(
      {.study_id = id, .state = StudyState::kQueued, .time_ms = NowMs(), .owner = owner});
  if (!study.ok()) return study.status();
  // If the request cannot be read, the study fails later, when the request is read again.
  const auto resolved = codec.decode_request(study->question);
  studies.Push(id, resolved.ok() ? LaneOf(resolved->request) : Lane::kSearches);
  return absl::OkStatus();
}

}  // namespace

absl::Status ResumeStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies) {
  RETURN_IF_ERROR(InterruptOrphans(recorder, owner, studies));
  ASSIGN_OR_RETURN(const std::vector<std::string> interrupted, Interrupted(recorder));
  for (const std::string& id : interrupted) {
    RETURN_IF_ERROR(Requeue(recorder, id, owner, codec, studies));
  }
  return absl::OkStatus();
}

}  // namespace meshwright
