#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"

namespace meshwright {

struct StoredTrialsOptions {
  std::string study_id = {};
  StoreAccess store = {};
  StudyCodec codec = {};
  QuestionRecord question = {};
  std::string launcher = {};
  int device_count = 1;         // devices that an attempt occupies
  std::stop_token cancel = {};  // stops the study
  // Returns why the study may no longer start anything, such as a job; null: it always may.
  std::function<absl::Status()> may_act = {};
  // Returns true if saving goes on after kSaveAttempts, because the store may come back before
  // another server has the study; null: it never does.
  std::function<bool()> is_patient = {};
  // EngineHooks.on_measurement.
  std::function<void(const MeasurementRecord&)> on_measurement = {};
};

// Measurements and answers are too expensive to lose because a store is busy or full for a moment.
// These are the number of attempts to save them and the pause between two attempts.
inline constexpr int kSaveAttempts = 5;
inline constexpr std::chrono::milliseconds kSavePause(200);

// Keeps the trial journal of a study in its store. Every trial that ends is also stored as a
// measurement. Those of the replay launcher come from a table of measurements, not from a cluster,
// and are kept apart.
class StoredTrials {
 public:
  // Reads what an earlier process wrote about the study.
  static absl::StatusOr<std::unique_ptr<StoredTrials>> Open(StoredTrialsOptions options);
  StoredTrials(const StoredTrials&) = delete;
  StoredTrials& operator=(const StoredTrials&) = delete;

  // Returns a journal that is valid as long as this object is.
  [[nodiscard]] const TrialJournal& journal() const { return journal_; }

 private:
  // A trial that has begun and not ended, with its attempts.
  struct OpenTrial {
    int number = 0;
    ParallelPlan plan = {};
    std::vector<AttemptRecord> attempts = {};
  };

  explicit StoredTrials(StoredTrialsOptions options);
  absl::Status Load(const Recorder& recorder);
  [[nodiscard]] bool HasAttemptLeft(const OpenTrial& trial) const;
  void TakeUp(std::vector<OpenTrial>::iterator trial);
  void SetAside();
  AttemptJournal Attempts();
  absl::Status Learnt(const std::optional<CalibrationReport>& report);
  absl::Status Begin(const ExpectedTrial& expected);
  absl::Status End(int number, const TriedPlan& tried);
  [[nodiscard]] TrialEnding EndingOf(const AttemptEnding& attempt, int number,
                                     const TriedPlan& tried) const;
  absl::Status Update(AttemptState state, const std::string& external_id,
                      const std::vector<std::string>& nodes);
  absl::StatusOr<OpenAttempt> Again(const AttemptReport& report);
  [[nodiscard]] OpenAttempt Newest() const;
  [[nodiscard]] AttemptEnding EndingOf(const AttemptReport& report, Outcome outcome) const;
  absl::Status Save(const StoreCall& save) const;
  [[nodiscard]] MeasurementRecord MeasurementOf(const TriedPlan& tried, std::int64_t time_ms) const;

  const StoredTrialsOptions options_;
  TrialJournal journal_;
  std::string calibration_id_;
  ExpectedTrial expected_;                       // the newest trial
  AttemptRecord attempt_;                        // the newest
  std::vector<AttemptRecord> earlier_attempts_;  // at the same trial
  bool is_adopted_ = false;                      // refers to the newest attempt
  std::optional<AttemptReport> report_;          // the launcher's, on the newest attempt
  std::optional<int> open_number_;               // the trial that has begun and not ended
  std::vector<OpenTrial> waiting_;               // other such trials, which begin again later
};

// Returns true if an earlier process may have left a job of the study running.
bool HasJobLeft(const Recorder& recorder, const std::string& study_id);

// Ends a study's open trials as cancelled, because the study ends. If a study is only interrupted,
// its trial stays open, to be started again.
absl::Status CancelOpenTrials(Recorder& recorder, std::string_view study_id, std::int64_t time_ms);

// Ends a study and its open trials.
absl::StatusOr<StudyRecord> EndStudy(Recorder& recorder, const StudyEnding& ending);

}  // namespace meshwright
