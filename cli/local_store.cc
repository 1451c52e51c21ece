#include "cli/local_store.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "recorder/recorder.h"
#include "search_space/status.h"
#include "server/rpc/convert.h"
#include "server/tuner/owner.h"
#include "server/tuner/study_id.h"

namespace meshwright {
namespace {

// Another search that is just then beginning or ending holds the store for milliseconds.
constexpr std::chrono::seconds kLockWait(3);

std::string EnvironmentOr(const char* name, const std::string& fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

absl::Status WithAdvice(const absl::Status& status) {
  const std::string message(status.message());
  const bool names_db = message.find("--db") != message.npos;
  const char* const advice = names_db ? ", or do not record the study with --no-record"
                                      : "; name another file with --db, or do not record the study "
                                        "with --no-record";
  return WithReason(absl::Status(status.code(), message + advice), Reason(status));
}

absl::StatusOr<Recorder> OpenWriter(const std::string& store) {
  auto recorder = Recorder::Open({.path = store, .lock_wait = kLockWait, .who = "meshwright tune"});
  if (!recorder.ok()) return WithAdvice(recorder.status());
  return recorder;
}

// A killed process leaves its studies in the store as they were until the next writer comes; they
// are shown as that writer will make them (Recorder::InterruptOrphans).
v1::Study ShownStudy(StudyRecord record) {
  const bool has_ended = IsTerminal(record.state) || record.state == StudyState::kInterrupted;
  if (has_ended || IsAlive(record.owner)) return ToWire(record);
  const bool is_cancelling = record.state == StudyState::kCancelling;
  record.state = is_cancelling ? StudyState::kCancelled : StudyState::kInterrupted;
  if (is_cancelling) record.outcome = "cancelled";
  return ToWire(record);
}

}  // namespace

std::string DefaultStorePath() {
  const std::string home = EnvironmentOr("HOME", ".");
  return EnvironmentOr("XDG_STATE_HOME", home + "/.local/state") + "/meshwright/history.db";
}

std::int64_t NowMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

absl::StatusOr<StudyRecord> BeginLocalStudy(const std::string& store, StudyRecord record) {
  ASSIGN_OR_RETURN(Recorder recorder, OpenWriter(store));
  const std::int64_t now = NowMilliseconds();
  if (auto orphans = recorder.InterruptOrphans(IsAlive, now); !orphans.ok()) {
    return WithAdvice(orphans.status());
  }
  record.state = StudyState::kRunning;
  record.owner = OwnOwner();
  record.create_time_ms = now;
  record.start_time_ms = now;
  for (;;) {
    record.id = NewStudyId();
    auto inserted = recorder.InsertStudy(record);
    if (inserted.ok()) return std::move(inserted->study);
    if (!absl::IsAlreadyExists(inserted.status())) return WithAdvice(inserted.status());
  }
}

absl::StatusOr<StudyRecord> EndLocalStudy(const std::string& store, const StudyEnding& ending) {
  ASSIGN_OR_RETURN(Recorder recorder, OpenWriter(store));
  auto study = recorder.FinishStudy(ending);
  if (!study.ok()) return WithAdvice(study.status());
  return study;
}

absl::StatusOr<v1::ListStudiesResponse> ListLocalStudies(const std::string& store, int page_size,
                                                         std::string_view page_token) {
  v1::ListStudiesResponse response;
  const auto recorder = Recorder::Open({.path = store, .read_only = true});
  if (Reason(recorder.status()) == "NO_STORE") return response;
  if (!recorder.ok()) return recorder.status();
  ASSIGN_OR_RETURN(StudyPage page, recorder->ListStudies(page_size, page_token));
  for (StudyRecord& study : page.studies) *response.add_studies() = ShownStudy(std::move(study));
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::GetStudyResponse> GetLocalStudy(const std::string& store,
                                                   const std::string& id) {
  ASSIGN_OR_RETURN(const Recorder recorder, Recorder::Open({.path = store, .read_only = true}));
  ASSIGN_OR_RETURN(const StudyRecord study, recorder.GetStudy(id));
  v1::GetStudyResponse response;
  *response.mutable_study() = ShownStudy(study);
  if (!response.mutable_question()->ParseFromString(study.question)) {
    return WithReason(
        absl::DataLossError(fmt::format("the stored question of study '{}' cannot be read", id)),
        "STORE_CORRUPT");
  }
  if (study.result.has_value()) RETURN_IF_ERROR(FillAnswer(*study.result, response));
  return response;
}

}  // namespace meshwright
