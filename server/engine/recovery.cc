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

absl::Status CancelTrialsOf(Recorder& recorder, const std::vector<StudyRecord>& orphans) {
  for (const StudyRecord& orphan : orphans) {
    if (IsTerminal(orphan.state)) RETURN_IF_ERROR(CancelOpenTrials(recorder, orphan.id, NowMs()));
  }
  return absl::OkStatus();
}

absl::Status InterruptOrphans(Recorder& recorder, const std::string& owner, StudyQueue& studies) {
  // Only one process runs studies of the store, and its engine is just starting. So a study with
  // our own pid was left by an earlier engine of this process.
  const auto is_alive = [&](std::string_view o) { return o != owner && IsAlive(o); };
  const auto has_job_left = [&](const std::string& id) { return HasJobLeft(recorder, id); };
  const auto orphans = recorder.InterruptOrphans(is_alive, NowMs(), has_job_left);
  if (!orphans.ok()) return orphans.status();
  for (const StudyRecord& orphan : *orphans) {
    if (orphan.state == StudyState::kCancelling) {
      studies.Push({.id = orphan.id, .lane = Lane::kJobs, .creator = orphan.creator});
    }
  }
  return CancelTrialsOf(recorder, *orphans);
}

// Ends a study that crashed its process too often and has no job that must be ended first, and
// pauses one that somebody wanted to pause. Returns true if the study is to be queued.
absl::StatusOr<bool> IsToRun(Recorder& recorder, const InterruptedStudy& study) {
  // The journal is read only if there may have been so many crashes.
  if (study.interruption_count >= kMaxCrashes && !HasJobLeft(recorder, study.id)) {
    ASSIGN_OR_RETURN(const auto failure, CrashFailure(recorder, study.id));
    if (failure.has_value()) {
      RETURN_IF_ERROR(EndStudy(recorder, FailedEnding(study.id, *failure)).status());
      return false;
    }
  }
  if (!study.is_to_pause) return true;
  RETURN_IF_ERROR(
      recorder.UpdateStudy({.study_id = study.id, .state = StudyState::kPaused, .time_ms = NowMs()})
          .status());
  return false;
}

// Queues the interrupted studies, among them those that an orderly stop interrupted, and returns
// them.
absl::StatusOr<std::vector<InterruptedStudy>> Requeue(Recorder& recorder,
                                                      const std::string& owner) {
  ASSIGN_OR_RETURN(std::vector<InterruptedStudy> interrupted, recorder.ListInterrupted());
  std::vector<InterruptedStudy> queued;
  std::vector<std::string> ids;
  for (InterruptedStudy& study : interrupted) {
    ASSIGN_OR_RETURN(const bool is_to_run, IsToRun(recorder, study));
    if (!is_to_run) continue;
    ids.push_back(study.id);
    queued.push_back(std::move(study));
  }
  RETURN_IF_ERROR(recorder.RequeueStudies(ids, owner, NowMs()));
  return queued;
}

}  // namespace

absl::StatusOr<std::optional<absl::Status>> CrashFailure(const Recorder& recorder,
                                                         std::string_view study_id) {
  ASSIGN_OR_RETURN(const int crash_count, CrashCount(recorder, study_id));
  if (crash_count < kMaxCrashes) return std::nullopt;
  return std::optional<absl::Status>(absl::InternalError(fmt::format(
      "the server was killed {} times while it ran this study, so it does not run it again",
      crash_count)));
}

absl::Status ResumeStudies(Recorder& recorder, const std::string& owner, const StudyCodec& codec,
                           StudyQueue& studies) {
  RETURN_IF_ERROR(InterruptOrphans(recorder, owner, studies));
  ASSIGN_OR_RETURN(const std::vector<InterruptedStudy> queued, Requeue(recorder, owner));
  for (const InterruptedStudy& study : queued) {
    // If the request cannot be read, the study fails later, when the request is read again.
    studies.Push({.id = study.id,
                  .lane = LaneOf(codec.read_launcher(study.question)),
                  .creator = study.creator});
  }
  return absl::OkStatus();
}

absl::Status TakeOverStudies(Recorder& recorder, const std::string& owner) {
  const auto has_job_left = [&](const std::string& id) { return HasJobLeft(recorder, id); };
  ASSIGN_OR_RETURN(const std::vector<StudyRecord> expired,
                   recorder.InterruptExpired(NowMs(), has_job_left));
  RETURN_IF_ERROR(CancelTrialsOf(recorder, expired));
  return Requeue(recorder, owner).status();
}

}  // namespace meshwright
