// kill -9 at any moment loses nothing that was acknowledged and duplicates nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <tuple>

#include "recorder/history_records.h"
#include "recorder/import.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "tests/events/moment.h"
#include "tests/recorder/line_source.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr int kGroup = 10;

// The moment at which the writer is killed: a number of rounds after a number of acknowledged
// calls.
struct Moment {
  int acknowledged = 0;
  long rounds = 0;
};

// A writer in a process of its own, which writes until it is killed. Each byte from the pipe
// acknowledges one more call.
template <typename Write>
int KillWhile(const std::string& path, Moment moment, const Write& write_some) {
  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    auto recorder = Recorder::Open({.path = path});
    for (int i = 0; recorder.ok() && write_some(*recorder, i, ends[1]);) ++i;
    _exit(1);  // only after an error, because the loop never ends
  }
  close(ends[1]);
  int acknowledged = 0;
  char byte = 0;
  while (acknowledged < moment.acknowledged && read(ends[0], &byte, 1) == 1) ++acknowledged;
  PassRounds(moment.rounds);
  kill(child, SIGKILL);
  while (read(ends[0], &byte, 1) == 1) ++acknowledged;  // bytes that the pipe still holds
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed on its own";
  return acknowledged;
}

template <typename WriteOne>
int KillWriter(const std::string& path, Moment moment, const WriteOne& write_one) {
  return KillWhile(path, moment, [&](Recorder& recorder, int number, int pipe) {
    return write_one(recorder, number) && write(pipe, "+", 1) == 1;
  });
}

bool AppendGroup(Recorder& recorder, int number) {
  if (number == 0 && !recorder.InsertStudy(MakeStudy("a")).ok()) return false;
  std::vector<EventRecord> events;
  for (int i = 0; i < kGroup; ++i) {
    events.push_back(MakeEvent("a", fmt::format("{}", number * kGroup + i)));
  }
  return recorder.AppendEvents(events).ok();
}

// Stores a whole study per call, from its question to its answer.
bool RunStudy(Recorder& recorder, int number) {
  const std::string id = fmt::format("s{:04}", number);
  if (!recorder.InsertStudy(MakeStudy(id, number)).ok()) return false;
  StudyEnding ending = {
      .study_id = id, .time_ms = number, .outcome = "improved", .events = {MakeEvent(id)}};
  for (int i = 0; i < kGroup; ++i) ending.plans.push_back(MakePlan(id, i));
  return recorder.UpdateStudy({.study_id = id, .time_ms = number}).ok() &&
         recorder.FinishStudy(ending).ok();
}

// Opens the store of a writer that was killed.
absl::StatusOr<Recorder> Reopen(const std::string& path) {
  auto recorder = Recorder::Open({.path = path});  // a file's lock was released with the process
  if (!recorder.ok()) return recorder;
  // A server may still be at the writer's last transaction, and the next one waits for it.
  const StoreCall nothing = [](Recorder&) { return absl::OkStatus(); };
  const absl::Status waited = recorder->RunTogether({&nothing, 1}).front();
  if (!waited.ok()) return waited;
  return recorder;
}

class CrashTest : public testing::TestWithParam<std::tuple<StorePlace, int>> {
 protected:
  static int acknowledged() { return std::get<1>(GetParam()); }

  const TestStore store_{std::get<0>(GetParam())};
  const std::string path_ = store_.address();
};

TEST_P(CrashTest, LosesNoGroup) {
  const int stored = KillWriter(path_, {.acknowledged = acknowledged()}, AppendGroup);
  auto recorder = Reopen(path_);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  if (stored == 0) return;  // perhaps killed before the first study
  std::vector<std::string> payloads;
  std::int64_t revision = 1;
  while (true) {
    const auto events = recorder->ListEvents("a", revision, 1000);
    ASSERT_TRUE(events.ok()) << events.status();
    if (events->empty()) break;
    for (const EventRecord& event : *events) {
      ASSERT_EQ(event.revision, ++revision);  // no gap and no duplicate
      ASSERT_EQ(event.payload, fmt::format("{}", revision - 2));
      payloads.push_back(event.payload);
    }
  }
  // Only whole groups are stored; at most one was stored but not acknowledged.
  const std::size_t least = static_cast<std::size_t>(stored) * kGroup;
  EXPECT_THAT(payloads.size(), testing::AnyOf(least, least + kGroup));
  // The journal continues where it stopped.
  EXPECT_EQ(recorder->AppendEvents(std::vector{MakeEvent("a")})->at(0), revision + 1);
}

TEST_P(CrashTest, LeavesNoHalfStudy) {
  const int stored = KillWriter(path_, {.acknowledged = acknowledged()}, RunStudy);
  auto recorder = Reopen(path_);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto orphans = recorder->InterruptOrphans([](std::string_view) { return false; }, 9);
  ASSERT_TRUE(orphans.ok()) << orphans.status();
  EXPECT_LE(orphans->size(), 1U);
  int finished = 0;
  std::string token;
  do {
    const auto page = recorder->ListStudies(1000, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const StudyRecord& study : page->studies) {
      const bool has_ended = study.state == StudyState::kSucceeded;
      finished += has_ended ? 1 : 0;
      EXPECT_TRUE(has_ended || study.state == StudyState::kInterrupted) << study.id;
      std::vector<PlanRecord> plans;
      for (int i = 0; has_ended && i < kGroup; ++i) plans.push_back(MakePlan(study.id, i));
      EXPECT_EQ(recorder->ListPlans(study.id, 0, "")->plans, plans) << study.id;
      // The events are queued, running, progress, succeeded; or queued, perhaps running,
      // interrupted.
      EXPECT_EQ(study.revision == 4, has_ended) << study.id;
    }
    token = page->next_page_token;
  } while (!token.empty());
  EXPECT_THAT(finished, testing::AnyOf(stored, stored + 1));
}

constexpr int kReports = 3;

std::vector<TrialRecord> Trials(const Recorder& recorder) {
  std::vector<TrialRecord> trials;
  std::string token;
  do {
    const auto page = recorder.ListTrials({.study_id = "a"}, TrialOrder::kNumber, 1000, token);
    if (!page.ok()) return trials;
    trials.insert(trials.end(), page->trials.begin(), page->trials.end());
    token = page->next_page_token;
  } while (!token.empty());
  return trials;
}

std::vector<MeasurementRecord> ReportsAfter(int trial) {
  std::vector<MeasurementRecord> reports;
  for (int i = 0; i < kReports; ++i) {
    reports.push_back(MakeMeasurement(fmt::format("report {} after {}", i, trial)));
    reports.back().request_id = reports.back().id;
  }
  return reports;
}

bool FinishTrial(Recorder& recorder, const AttemptRecord& attempt) {
  const std::int64_t token = attempt.fencing_token;
  if (!recorder.UpdateAttempt({.attempt_id = attempt.id, .fencing_token = token}).ok()) {
    return false;
  }
  TrialEnding ending;
  ending.study_id = "a";
  ending.trial_number = attempt.trial_number;
  ending.attempt.attempt_id = attempt.id;
  ending.attempt.fencing_token = token;
  ending.step_time = Seconds(1.5);
  ending.measurement = MakeMeasurement(fmt::format("trial {}", attempt.trial_number));
  ending.measurement->study_id = "a";
  ending.events = {MakeEvent("a")};
  return recorder.FinishTrial(ending).ok();
}

// Stores one more trial per call and then its reports, continuing where the last process was
// killed.
bool RunTrial(Recorder& recorder, int number) {
  if (number == 0 && !recorder.GetStudy("a").ok() && !recorder.InsertStudy(MakeStudy("a")).ok()) {
    return false;
  }
  const std::vector<TrialRecord> trials = Trials(recorder);
  const int count = static_cast<int>(trials.size());
  if (!trials.empty() && trials.back().state == TrialState::kOpen) {
    const auto attempt = recorder.AddAttempt({.study_id = "a", .trial_number = count});
    if (!attempt.ok() || !FinishTrial(recorder, *attempt)) return false;
    return recorder.InsertMeasurements(ReportsAfter(count)).ok();
  }
  // The reports of the last trial may be missing; existing ones are not duplicated.
  if (count > 0 && !recorder.InsertMeasurements(ReportsAfter(count)).ok()) return false;
  const auto begun = recorder.BeginTrial(MakeIntent("a", fmt::format("d{}", count + 1)));
  if (!begun.ok() || !FinishTrial(recorder, begun->attempt)) return false;
  return recorder.InsertMeasurements(ReportsAfter(count + 1)).ok();
}

// Checks that every ended trial has its attempt, measurement and event exactly once; returns the
// number of ended trials.
int CheckTrials(const Recorder& recorder) {
  int ended = 0;
  for (const TrialRecord& trial : Trials(recorder)) {
    const int number = ended + 1;  // so only the last can be open
    EXPECT_EQ(trial.number, number);
    EXPECT_EQ(trial.plan_digest, fmt::format("d{}", number));
    const auto attempts = recorder.ListAttempts("a", number);
    EXPECT_FALSE(attempts->empty());
    for (const AttemptRecord& attempt : *attempts) {
      const bool is_last = &attempt == &attempts->back();
      EXPECT_EQ(attempt.failure_class == kSuperseded, !is_last);
    }
    const auto measured = recorder.GetMeasurement(fmt::format("trial {}", number));
    EXPECT_EQ(measured.ok(), trial.state == TrialState::kEnded);
    if (trial.state == TrialState::kOpen) continue;
    EXPECT_EQ(attempts->back().state, AttemptState::kEnded);
    EXPECT_EQ(measured->sequence, trial.measurement_sequence);
    ++ended;
  }
  return ended;
}

int CountMeasurements(const Recorder& recorder) {
  int count = 0;
  std::string token;
  do {
    const auto page = recorder.ListMeasurements({}, MeasurementOrder::kOldest, 1000, token);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    count += static_cast<int>(page->measurements.size());
    token = page->next_page_token;
  } while (!token.empty());
  return count;
}

// The process is killed at forty moments, each shortly after a call was acknowledged.
class CrashOfTrialsTest : public testing::TestWithParam<StorePlace> {};

TEST_P(CrashOfTrialsTest, LosesNothingAndDoublesNothing) {
  const TestStore store(GetParam());
  const std::string& path = store.address();
  std::mt19937 random(20261122);
  int ended = 0;
  for (int i = 0; i < 40; ++i) {
    const Moment moment = {.acknowledged = static_cast<int>(random() % 4),
                           .rounds = static_cast<long>(random() % 8'000'000)};
    const int acknowledged = KillWriter(path, moment, RunTrial);
    auto recorder = Reopen(path);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    const int now = CheckTrials(*recorder);
    EXPECT_THAT(now - ended, testing::AnyOf(acknowledged, acknowledged + 1));
    ended = now;
    // Measurements that were stored together are all there.
    EXPECT_THAT(CountMeasurements(*recorder),
                testing::AnyOf((ended - 1) * (1 + kReports) + 1, ended * (1 + kReports), 0));
    // In a file they are numbered without a gap; a sequence of PostgreSQL is not rolled back.
    if (GetParam() == StorePlace::kFile) {
      const auto last = recorder->LastMeasurementSequence();
      ASSERT_TRUE(last.ok()) << last.status();
      EXPECT_EQ(*last, CountMeasurements(*recorder));
    }
    const auto events = recorder->ListEvents("a", 0, 1000);
    if (events.ok()) {
      EXPECT_EQ(std::ssize(*events), 1 + ended);
    }
  }
  EXPECT_GT(ended, 40);  // 1.5 per round on average
}

constexpr int kImported = 4000;

std::vector<std::string> LinesOf(const Recorder& recorder) {
  std::vector<std::string> lines;
  const absl::Status status = recorder.Export({}, [&lines](std::string_view line) {
    lines.emplace_back(line);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  return lines;
}

std::vector<std::string> LinesToImport() {
  auto source = Recorder::Open({.path = ":memory:"});
  std::vector<MeasurementRecord> rows;
  for (int i = 0; i < kImported; ++i) rows.push_back(MakeMeasurement(fmt::format("m{:05}", i)));
  EXPECT_TRUE(source->InsertMeasurements(rows).ok());
  return LinesOf(*source);
}

// The process is killed in the middle of an import, each time at another group. The stored part is
// a beginning of the import, and repeating the import completes it.
class CrashOfImportTest : public testing::TestWithParam<StorePlace> {};

TEST_P(CrashOfImportTest, TheSameImportCompletesIt) {
  const std::vector<std::string> lines = LinesToImport();
  std::mt19937 random(20261125);
  for (const int groups : {0, 1, 5, 13, 37}) {
    const TestStore store(GetParam());
    const std::string& path = store.address();
    const Moment moment = {.acknowledged = groups,
                           .rounds = static_cast<long>(random() % 3'000'000)};
    // Acknowledges each group and then waits to be killed.
    const auto import = [&](Recorder& recorder, int /*number*/, int pipe) {
      StoreAccess access = DirectAccess(recorder);
      access.write = [&](const StoreCall& call) -> absl::Status {
        const absl::Status stored = call(recorder);
        return write(pipe, "+", 1) == 1 ? stored : absl::UnknownError("no pipe");
      };
      return ImportMeasurements(SourceOf(lines), {}, access).ok() && pause() == -1;
    };
    const int acknowledged = KillWhile(path, moment, import);
    auto recorder = Reopen(path);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    const int stored = CountMeasurements(*recorder);
    EXPECT_GE(stored, std::min(acknowledged * kMaxGroupRows, kImported));
    EXPECT_EQ(stored % kMaxGroupRows, 0) << "whole groups";

    const auto completed = ImportMeasurements(SourceOf(lines), {}, DirectAccess(*recorder));
    ASSERT_TRUE(completed.ok()) << completed.status();
    EXPECT_EQ(completed->skipped, stored);
    EXPECT_EQ(completed->imported, kImported - stored);
    EXPECT_EQ(LinesOf(*recorder), lines);
  }
}

INSTANTIATE_TEST_SUITE_P(After, CrashTest,
                         testing::Combine(testing::ValuesIn(DurablePlaces()),
                                          testing::Values(0, 1, 2, 7, 23, 60)),
                         [](const auto& tested) {
                           return fmt::format("{}{}", NameOf(std::get<0>(tested.param)),
                                              std::get<1>(tested.param));
                         });

INSTANTIATE_TEST_SUITE_P(All, CrashOfTrialsTest, testing::ValuesIn(DurablePlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

INSTANTIATE_TEST_SUITE_P(All, CrashOfImportTest, testing::ValuesIn(DurablePlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
