#include "server/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/engine/followers.h"
#include "server/engine/measurement.h"
#include "server/engine/saving.h"
#include "server/engine/store_history.h"
#include "server/engine/store_writer.h"
#include "server/engine/stored_trials.h"
#include "server/engine/study_id.h"
#include "server/engine/study_queue.h"
#include "server/engine/study_record.h"
#include "server/process/owner.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Progress is journalled every 200 ms, and later every hundredth of the study's age, so that the
// journal of a day-long study stays at about a thousand events: after 20 s it grows with the
// logarithm of the age, 100 x ln(86400 / 20) = 837, behind the first 100.
constexpr std::chrono::milliseconds kProgressInterval(200);
constexpr int kIntervalsPerAge = 100;

// A study that took its process down this often is taken for the cause.
constexpr int kMostCrashes = 3;

// Studies with jobs that run beside each other; more wait.
constexpr int kJobThreads = 8;

}  // namespace

struct Engine::State {
  State(Recorder recorder_in, const Knowledge& knowledge_in, StudyCodec codec_in,
        EngineHooks hooks_in)
      : knowledge(knowledge_in),
        codec(std::move(codec_in)),
        hooks(std::move(hooks_in)),
        recorder(std::move(recorder_in)) {}

  absl::Status Recover();
  absl::Status InterruptOrphans();
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Interrupted() const;
  absl::Status Requeue(const std::string& id);
  absl::StatusOr<StudyRecord> Finish(const StudyEnding& ending);
  absl::StatusOr<InsertedStudy> Insert(StudyRecord record, const CreateStudyOptions& options);
  void Run(Lane lane, const std::stop_token& stop);
  std::optional<std::string> NextStudy(Lane lane, const std::stop_token& stop);
  absl::StatusOr<StudyRequest> Begin(const std::string& id);
  HistorySource HistoryUpTo(std::int64_t sequence);
  void RunOne(const std::string& id);
  absl::StatusOr<StudyAnswer> Answer(const std::string& id, const StudyRequest& request,
                                     std::optional<Progress>& unsaved_progress);
  absl::StatusOr<StudyAnswer> Try(const std::string& id, const StudyRequest& request,
                                  StudyControl control);
  absl::Status KeepCalibration(const absl::StatusOr<StudyAnswer>& answer);
  void AppendProgress(const std::string& id, const Progress& progress);
  [[nodiscard]] EventRecord ProgressEvent(const std::string& id, const Progress& progress) const;
  absl::Status Interrupt(const std::string& id);
  void Conclude(const std::string& id, StudyEnding ending, bool was_cut);
  void Report(const std::string& id, const absl::Status& status) const {
    if (!status.ok() && hooks.on_error) hooks.on_error(id, status);
  }

  const Knowledge& knowledge;
  const StudyCodec codec;
  const EngineHooks hooks;
  const std::string owner = OwnOwner();

  std::mutex mutex;  // guards all below; held for one use of the store at most
  std::condition_variable_any changed;
  Recorder recorder;
  Followers followers;
  StudyQueue studies;
  bool is_stopping = false;

  StoreWriter writer{[this](std::span<const StoreCall> calls) {
    const std::lock_guard lock(mutex);
    return recorder.RunTogether(calls);
  }};

  std::vector<std::jthread> threads;  // last: they use all above
};

absl::Status Engine::State::Recover() {
  RETURN_IF_ERROR(InterruptOrphans());
  ASSIGN_OR_RETURN(const std::vector<std::string> interrupted, Interrupted());
  for (const std::string& id : interrupted) RETURN_IF_ERROR(Requeue(id));
  return absl::OkStatus();
}

absl::Status Engine::State::InterruptOrphans() {
  // One process writes the store, and its engine is only starting: a study of our own pid is one
  // that an earlier engine of this process left.
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

// Oldest first; also those that an orderly stop has left so.
absl::StatusOr<std::vector<std::string>> Engine::State::Interrupted() const {
  std::vector<std::string> interrupted;
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const StudyPage page, recorder.ListStudies(1000, page_token));
    for (const StudyRecord& study : page.studies) {
      if (study.state == StudyState::kInterrupted) interrupted.push_back(study.id);
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  std::reverse(interrupted.begin(), interrupted.end());
  return interrupted;
}

absl::Status Engine::State::Requeue(const std::string& id) {
  ASSIGN_OR_RETURN(const int crash_count, CrashCount(recorder, id));
  if (crash_count >= kMostCrashes) {
    const auto lost = absl::InternalError(
        fmt::format("the server was lost {} times while it ran this study; it is not tried again",
                    crash_count));
    if (!HasJobLeft(recorder, id)) return Finish(FailedEnding(id, lost)).status();
    studies.EndWhenItBegins(id, lost);
  }
  const auto study = recorder.UpdateStudy(
      {.study_id = id, .state = StudyState::kQueued, .time_ms = NowMs(), .owner = owner});
  if (!study.ok()) return study.status();
  // A request that cannot be read fails where it is read again.
  const auto request = codec.decode_request(study->question);
  studies.Push(id, request.ok() ? LaneOf(*request) : Lane::kSearches);
  return absl::OkStatus();
}

absl::StatusOr<StudyRecord> Engine::State::Finish(const StudyEnding& ending) {
  RETURN_IF_ERROR(CancelOpenTrials(recorder, ending.study_id, NowMs()));
  auto study = recorder.FinishStudy(ending);
  if (study.ok()) followers.Publish(recorder, ending.study_id);
  return study;
}

absl::StatusOr<InsertedStudy> Engine::State::Insert(StudyRecord record,
                                                    const CreateStudyOptions& options) {
  record.owner = owner;
  record.request_id = options.request_id;
  record.request_hash += options.study_id.value_or("");  // part of what the client asked for
  record.create_time_ms = NowMs();
  record.id = options.study_id.value_or("");
  if (options.study_id.has_value()) return recorder.InsertStudy(record);
  for (;;) {
    record.id = NewStudyId();
    auto inserted = recorder.InsertStudy(record);
    if (!absl::IsAlreadyExists(inserted.status())) return inserted;
  }
}

void Engine::State::Run(Lane lane, const std::stop_token& stop) {
  while (const auto id = NextStudy(lane, stop)) RunOne(*id);
}

std::optional<std::string> Engine::State::NextStudy(Lane lane, const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  changed.wait(lock, stop, [this, lane] { return !studies.IsEmpty(lane); });
  if (is_stopping || studies.IsEmpty(lane)) return std::nullopt;
  return studies.Begin(lane);
}

absl::StatusOr<StudyRequest> Engine::State::Begin(const std::string& id) {
  const std::lock_guard lock(mutex);
  ASSIGN_OR_RETURN(const StudyRecord study, recorder.GetStudy(id));
  ASSIGN_OR_RETURN(StudyRequest request, codec.decode_request(study.question));
  const auto updated = recorder.UpdateStudy(
      {.study_id = id, .state = StudyState::kRunning, .time_ms = NowMs(), .owner = owner});
  // Cancelled between the queue and here: it runs into its cancelled stop token at once.
  const bool is_cancelled = studies.Running(id)->is_cancelled_by_user;
  if (!updated.ok() && !is_cancelled) return updated.status();
  followers.Publish(recorder, id);
  // What it may learn from is settled when it first starts.
  ASSIGN_OR_RETURN(const std::int64_t last, recorder.LastMeasurementSequence());
  ASSIGN_OR_RETURN(
      request.history_sequence,
      recorder.SetStudyHistory(id, std::min(last, request.history_sequence.value_or(last))));
  return request;
}

HistorySource Engine::State::HistoryUpTo(std::int64_t sequence) {
  return {.sequence = sequence, .read = [this, sequence](const Problem& problem) {
            const std::lock_guard lock(mutex);
            return ReadStoreHistory(recorder, problem, knowledge, codec, sequence);
          }};
}

void Engine::State::RunOne(const std::string& id) {
  const auto request = Begin(id);
  if (!request.ok()) {
    Conclude(id, FailedEnding(id, request.status()), /*was_cut=*/false);
    return;
  }
  std::optional<Progress> unsaved_progress;
  auto answer = Answer(id, *request, unsaved_progress);
  {
    const std::lock_guard lock(mutex);
    if (const auto& failure = studies.Running(id)->failure) answer = *failure;
  }
  StudyEnding ending = EndingOf(id, answer, codec, NowMs());
  if (unsaved_progress.has_value()) {
    ending.events.push_back(ProgressEvent(id, *unsaved_progress));
  }
  {
    const std::lock_guard lock(mutex);
    Report(id, KeepCalibration(answer));
  }
  Conclude(id, std::move(ending), WasCut(answer));
}

absl::StatusOr<StudyAnswer> Engine::State::Answer(const std::string& id,
                                                  const StudyRequest& request,
                                                  std::optional<Progress>& unsaved_progress) {
  std::stop_token cancel;
  std::stop_token leave;
  {
    const std::lock_guard lock(mutex);
    cancel = studies.Running(id)->cancel.get_token();
    leave = studies.Running(id)->leave.get_token();
  }
  const Clock::time_point start = Clock::now();
  std::optional<Clock::time_point> last;
  const auto on_progress = [&](const Progress& progress) {
    const Clock::time_point now = Clock::now();
    const auto interval =
        std::max<Clock::duration>(kProgressInterval, (now - start) / kIntervalsPerAge);
    if (last.has_value() && now - *last < interval) {
      unsaved_progress = progress;
      return;
    }
    last = now;
    unsaved_progress.reset();
    AppendProgress(id, progress);
  };
  // The thread must outlive any study, also one that asks for more memory than there is.
  try {
    return Try(id, request,
               {.cancel = cancel,
                .leave = leave,
                .on_progress = on_progress,
                .history = HistoryUpTo(request.history_sequence.value_or(0))});
  } catch (const std::exception& e) {
    return absl::InternalError(fmt::format("the study broke off: {}", e.what()));
  }
}

absl::StatusOr<StudyAnswer> Engine::State::Try(const std::string& id, const StudyRequest& request,
                                               StudyControl control) {
  if (!request.trials.has_value()) return hooks.run(request, knowledge, control);
  ASSIGN_OR_RETURN(const Problem problem, ResolveProblem(request.question, knowledge));
  const auto access = [this, &id](const StoreCall& call) {
    const std::lock_guard lock(mutex);
    absl::Status done = call(recorder);
    followers.Publish(recorder, id);
    return done;
  };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<StoredTrials> trials,
      StoredTrials::Open({.study_id = id,
                          .access = access,
                          .codec = codec,
                          .question = QuestionRecordOf(request.question, problem, codec),
                          .launcher = request.trials->launcher,
                          .device_count = DeviceCount(problem.cluster),
                          .cancel = control.cancel}));
  control.trials = &trials->journal();
  control.print_case = codec.print_case;
  return hooks.run(request, knowledge, control);
}

absl::Status Engine::State::KeepCalibration(const absl::StatusOr<StudyAnswer>& answer) {
  const auto* result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr;
  if (result == nullptr || !result->calibration.has_value()) return absl::OkStatus();
  return recorder.InsertCalibration(CalibrationRecordOf(*result->calibration, codec, NowMs()));
}

EventRecord Engine::State::ProgressEvent(const std::string& id, const Progress& progress) const {
  return {.study_id = id,
          .time_ms = NowMs(),
          .kind = kProgressEventKind,
          .payload = codec.encode_progress(progress)};
}

void Engine::State::AppendProgress(const std::string& id, const Progress& progress) {
  const EventRecord event = ProgressEvent(id, progress);
  const std::lock_guard lock(mutex);
  Report(id, recorder.AppendEvents({&event, 1}).status());
  followers.Publish(recorder, id);
}

absl::Status Engine::State::Interrupt(const std::string& id) {
  const EventRecord event = {.study_id = id, .time_ms = NowMs(), .kind = kShutdownEventKind};
  RETURN_IF_ERROR(recorder.AppendEvents({&event, 1}).status());
  return recorder
      .UpdateStudy({.study_id = id, .state = StudyState::kInterrupted, .time_ms = NowMs()})
      .status();
}

void Engine::State::Conclude(const std::string& id, StudyEnding ending, bool was_cut) {
  for (int attempt = 1;; ++attempt) {
    {
      const std::lock_guard lock(mutex);
      absl::Status saved;
      if (studies.Running(id)->is_cancelled_by_user && ending.state != StudyState::kFailed) {
        ending.state = StudyState::kCancelled;
        ending.outcome = "cancelled";
        saved = Finish(ending).status();
      } else if (was_cut) {
        saved = Interrupt(id);  // by our destructor: nobody else cancels
        followers.Publish(recorder, id);
      } else {
        saved = Finish(ending).status();
      }
      if (saved.ok() || attempt == kSaveAttempts || is_stopping) {
        studies.End(id);
        Report(id, saved);
        return;
      }
    }
    std::this_thread::sleep_for(kSavePause);
  }
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Start(Recorder recorder, const Knowledge& knowledge,
                                                      StudyCodec codec, EngineHooks hooks) {
  auto state =
      std::make_unique<State>(std::move(recorder), knowledge, std::move(codec), std::move(hooks));
  RETURN_IF_ERROR(state->Recover());
  State& s = *state;
  for (int i = 0; i <= kJobThreads; ++i) {
    const Lane lane = i == 0 ? Lane::kSearches : Lane::kJobs;
    s.threads.emplace_back([&s, lane](const std::stop_token& stop) { s.Run(lane, stop); });
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::~Engine() {
  std::vector<RunningStudy> running;
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_stopping = true;
    running = state_->studies.All();
  }
  for (RunningStudy& study : running) {
    study.leave.request_stop();
    study.cancel.request_stop();
  }
  for (std::jthread& thread : state_->threads) thread.request_stop();
  state_->threads.clear();
  const std::lock_guard lock(state_->mutex);
  state_->followers.Close();
}

absl::StatusOr<StudyRecord> Engine::CreateStudy(const StudyRequest& request,
                                                const CreateStudyOptions& options) {
  if (options.study_id.has_value()) {
    const std::string launcher = request.trials.has_value() ? request.trials->launcher : "";
    if (auto violation = CheckStudyId(*options.study_id, launcher)) {
      return InvalidFields({*violation});
    }
  }
  if (LaneOf(request) == Lane::kJobs && !state_->hooks.allows_jobs) {
    return WithReason(absl::PermissionDeniedError("this server runs no jobs: it was started "
                                                  "without --allow-jobs"),
                      "JOBS_NOT_ALLOWED");
  }
  ASSIGN_OR_RETURN(StudyRecord record, NewStudyRecord(request, state_->knowledge, state_->codec));
  const std::lock_guard lock(state_->mutex);
  ASSIGN_OR_RETURN(InsertedStudy inserted, state_->Insert(std::move(record), options));
  if (inserted.is_new) {
    state_->studies.Push(inserted.study.id, LaneOf(request));
    state_->changed.notify_all();
  }
  return std::move(inserted.study);
}

absl::StatusOr<StudyRecord> Engine::RecordStudy(const StudyRequest& request,
                                                const absl::StatusOr<StudyAnswer>& answer,
                                                const OutsideRun& run) {
  ASSIGN_OR_RETURN(StudyRecord record, NewStudyRecord(request, state_->knowledge, state_->codec));
  record.state = StudyState::kRunning;
  record.start_time_ms = run.start_time_ms;
  const std::lock_guard lock(state_->mutex);
  ASSIGN_OR_RETURN(const InsertedStudy inserted, state_->Insert(std::move(record), {}));
  const std::string& id = inserted.study.id;
  // The answer is kept whatever becomes of what explains it.
  state_->Report(id, state_->recorder.SetStudyHistory(id, run.history_sequence).status());
  state_->Report(id, state_->KeepCalibration(answer));
  return state_->Finish(EndingOf(id, answer, state_->codec, NowMs()));
}

absl::StatusOr<HistorySource> Engine::History(std::optional<std::int64_t> up_to_sequence) {
  const std::lock_guard lock(state_->mutex);
  ASSIGN_OR_RETURN(const std::int64_t last, state_->recorder.LastMeasurementSequence());
  return state_->HistoryUpTo(std::min(last, up_to_sequence.value_or(last)));
}

absl::StatusOr<StudyRecord> Engine::GetStudy(std::string_view id) {
  const std::lock_guard lock(state_->mutex);
  return state_->recorder.GetStudy(id);
}

absl::StatusOr<StudyPage> Engine::ListStudies(int page_size, std::string_view page_token) {
  const std::lock_guard lock(state_->mutex);
  return state_->recorder.ListStudies(page_size, page_token);
}

absl::StatusOr<PlanPage> Engine::ListPlans(std::string_view id, int page_size,
                                           std::string_view page_token) {
  const std::lock_guard lock(state_->mutex);
  // An unknown study is an error, not an empty list.
  if (const auto study = state_->recorder.GetStudy(id); !study.ok()) return study.status();
  return state_->recorder.ListPlans(id, page_size, page_token);
}

absl::StatusOr<std::vector<EventRecord>> Engine::ListEvents(std::string_view id,
                                                            std::int64_t after_revision) {
  const std::lock_guard lock(state_->mutex);
  if (const auto study = state_->recorder.GetStudy(id); !study.ok()) return study.status();
  return state_->recorder.ListEvents(id, after_revision, 1000);
}

absl::StatusOr<StudyRecord> Engine::CancelStudy(std::string_view id) {
  std::optional<std::stop_source> cancel;
  absl::StatusOr<StudyRecord> study = absl::UnknownError("");
  {
    const std::lock_guard lock(state_->mutex);
    study = state_->recorder.GetStudy(id);
    if (!study.ok() || IsTerminal(study->state)) return study;
    RunningStudy* const running = state_->studies.Running(id);
    if (running != nullptr || HasJobLeft(state_->recorder, study->id)) {
      if (running != nullptr) {
        running->is_cancelled_by_user = true;
        cancel.emplace(running->cancel);
      } else {
        state_->studies.EndWhenItBegins(study->id, std::nullopt);
      }
      study = state_->recorder.UpdateStudy(
          {.study_id = study->id, .state = StudyState::kCancelling, .time_ms = NowMs()});
      state_->followers.Publish(state_->recorder, id);
    } else {
      state_->studies.Remove(study->id);
      study = state_->Finish(CancelledEnding(study->id));
    }
  }
  if (cancel.has_value()) cancel->request_stop();
  return study;
}

absl::StatusOr<std::int64_t> Engine::Subscribe(std::string_view id, std::int64_t after_revision,
                                               EventSink sink) {
  const std::lock_guard lock(state_->mutex);
  return state_->followers.Add(state_->recorder, id, after_revision, std::move(sink));
}

void Engine::Unsubscribe(std::int64_t subscription) {
  const std::lock_guard lock(state_->mutex);
  state_->followers.Remove(subscription);
}

absl::Status Engine::UseStore(const StoreCall& use) {
  const std::lock_guard lock(state_->mutex);
  return use(state_->recorder);
}

absl::Status Engine::WriteStore(StoreCall call) { return state_->writer.Run(std::move(call)); }

int Engine::schema_version() const { return state_->recorder.schema_version(); }

}  // namespace meshwright
