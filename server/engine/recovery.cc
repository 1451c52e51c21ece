#include "server/engine/recovery.h"

#include <fmt/format.h>

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
  // Only one process runs studies of the store, and its engine is just starting. So a study with
  // our own pid was left by an earlier engine of this process. The owner of a study on PostgreSQL
  // may have been on another machine, and has lost its right to run it.
  const bool may_live = IsStoreFile(recorder.path());
  const auto is_alive = [&](std::string_view o) { return may_live && o != owner && IsAlive(o); };
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

// Ends a study that crashed its process too often, or has it end when it begins because a job of it
// must still be ended. Returns true if the study is to be queued.
absl::StatusOr<bool> IsToRun(Recorder& recorder, const InterruptedStudy& study,
                             StudyQueue& studies) {
  // The journal is read only if there may have been so many crashes.
  if (study.interruption_count < kMaxCrashes) return true;
  ASSIGN_OR_RETURN(const int crash_count, CrashCount(recorder, study.id));
  if (crash_count < kMaxCrashes) return true;
  const auto lost = absl::InternalError(fmt::format(
      "the server was killed {} times while it ran this study, so it does not run it again",
      crash_count));
  if (!HasJobLeft(recorder, study.id)) {
    RETURN_IF_ERROR(EndStudy(recorder, FailedEnding(study.id, lost)).status());
    return false;
  }
  studies.EndWhenItBegins(study.id, lost);
  return true;
}

}  // namespace

absl::Status ResumeStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies) {
  RETURN_IF_ERROR(InterruptOrphans(recorder, owner, studies));
  // They include those that an orderly stop interrupted.
  ASSIGN_OR_RETURN(const std::vector<InterruptedStudy> interrupted, recorder.ListInterrupted());
  std::vector<std::string> queued;
  for (const InterruptedStudy& study : interrupted) {
    ASSIGN_OR_RETURN(const bool is_to_run, IsToRun(recorder, study, studies));
    if (!is_to_run) continue;
    queued.push_back(study.id);
    // If the request cannot be read, the study fails later, when the request is read again.
    studies.Push(study.id, LaneOf(codec.read_launcher(study.question)));
  }
  return recorder.RequeueStudies(queued, owner, NowMs());
}

}  // namespace meshwright
