// Tests kill -9 at any point of a study with trials. Nothing that the store has acknowledged is
// lost, nothing appears twice, and the study continues to the same answer.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "server/process/descriptor.h"
#include "server/process/spawn.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/kill_study.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Clock = std::chrono::steady_clock;

// The reports of a child before it ended.
struct Told {
  int signal = 0;  // the signal that ended it; 0 if it ended by itself
  int exit_code = 0;
  bool has_created = false;
  std::map<int, std::string> begun = {};  // plan keys by the number of the trial
  std::map<int, std::string> ended = {};
  long calls = 0;  // number of changes of files in a child that ended by itself
  std::string failure = {};
};

void Read(const std::string& line, Told& told) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  if (word == "created") told.has_created = true;
  if (word == "calls") in >> told.calls;
  if (word == "failed") told.failure = line;
  if (word != "begun" && word != "ended") return;
  int number = 0;
  std::string plan_key;
  in >> number >> plan_key;
  (word == "begun" ? told.begun : told.ended)[number] = plan_key;
}

// Reads until the child closes its end. Kills the child at `deadline` if that comes first.
std::string ReadAll(int end, pid_t child, std::optional<Clock::time_point> deadline) {
  std::string text;
  char buffer[4096];
  for (;;) {
    int timeout = -1;
    if (deadline.has_value()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now());
      timeout = static_cast<int>(std::max<std::int64_t>(0, left.count()));
    }
    pollfd ready = {.fd = end, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, timeout) == 0) {
      kill(child, SIGKILL);
      deadline.reset();
      continue;
    }
    const ssize_t count = read(end, buffer, sizeof(buffer));
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

// Runs a child on the store. It is killed at a change of a file (0: never), or some time after its
// start.
Told RunChild(const std::string& store, long kill_at, std::optional<Clock::duration> life = {}) {
  auto output = MakePipe();
  EXPECT_TRUE(output.ok()) << output.status();
  const auto child = Spawn({.arguments = {KILL_CHILD_PATH, store, std::to_string(kill_at)},
                            .descriptors = {{STDOUT_FILENO, output->write.number()}}});
  EXPECT_TRUE(child.ok()) << child.status();
  output->write.Close();
  std::optional<Clock::time_point> deadline;
  if (life.has_value()) deadline = Clock::now() + *life;
  const std::string text = ReadAll(output->read.number(), *child, deadline);
  int status = 0;
  waitpid(*child, &status, 0);
  Told told;
  if (WIFSIGNALED(status)) told.signal = WTERMSIG(status);
  if (WIFEXITED(status)) told.exit_code = WEXITSTATUS(status);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) Read(line, told);
  return told;
}

// A study as it is in the store.
struct Stored {
  StudyRecord study = {};
  std::vector<TrialRecord> trials = {};
  std::map<int, std::vector<AttemptRecord>> attempts = {};
  std::vector<MeasurementRecord> measurements = {};
};

Stored ReadStore(const std::string& path) {
  auto store = Recorder::Open({.path = path});  // checks what a killed process has left
  EXPECT_TRUE(store.ok()) << store.status();
  Stored stored;
  auto study = store->GetStudy(kKillStudyId);
  if (!study.ok()) return stored;
  stored.study = *std::move(study);
  stored.trials =
      store->ListTrials({.study_id = kKillStudyId}, TrialOrder::kNumber, 1000, "").value().trials;
  for (const TrialRecord& trial : stored.trials) {
    stored.attempts[trial.number] = store->ListAttempts(kKillStudyId, trial.number).value();
  }
  stored.measurements =
      store->ListMeasurements({}, MeasurementOrder::kNewest, 1000, "").value().measurements;
  return stored;
}

// Returns the answer as text, but for the time of the search, which each search has of its own.
std::string AnswerOf(const Stored& stored) {
  v1::GetStudyResponse answer;
  EXPECT_TRUE(answer.ParseFromString(stored.study.result.value_or("")));
  answer.mutable_result()->mutable_search()->clear_seconds();
  return answer.DebugString();
}

// Expects that everything acknowledged before the kill is unchanged after it.
void ExpectKept(const Told& told, const Stored& stored) {
  EXPECT_TRUE(!told.has_created || stored.study.id == kKillStudyId) << "the study was lost";
  std::map<int, TrialRecord> trials;
  for (const TrialRecord& trial : stored.trials) trials[trial.number] = trial;
  for (const auto& [number, plan_key] : told.begun) {
    EXPECT_EQ(trials[number].plan_key, plan_key) << "trial " << number << " was lost";
  }
  for (const auto& [number, plan_key] : told.ended) {
    EXPECT_EQ(trials[number].plan_key, plan_key) << "trial " << number << " was lost";
    EXPECT_EQ(trials[number].state, TrialState::kEnded) << "the end of " << number << " was lost";
  }
}

// Expects that each plan is measured once, and that trials that ended before the kill were not run
// again.
void ExpectNothingTwice(const Stored& before, const Stored& after) {
  std::set<std::string> plans;
  for (std::size_t i = 0; i < after.trials.size(); ++i) {
    EXPECT_EQ(after.trials[i].number, static_cast<int>(i) + 1);
    EXPECT_TRUE(plans.insert(after.trials[i].plan_key).second) << "measured twice";
  }
  EXPECT_EQ(after.measurements.size(), after.trials.size());
  std::set<std::string> measured;
  for (const MeasurementRecord& m : after.measurements) {
    EXPECT_TRUE(measured.insert(m.plan_key).second) << "two measurements of a trial";
    EXPECT_EQ(m.source, MeasurementSource::kReplay);
  }
  for (const TrialRecord& trial : before.trials) {
    if (trial.state != TrialState::kEnded) continue;
    const auto index = static_cast<std::size_t>(trial.number) - 1;
    ASSERT_LT(index, after.trials.size());
    EXPECT_EQ(after.trials[index], trial);
    EXPECT_EQ(after.attempts.at(trial.number), before.attempts.at(trial.number)) << "run again";
  }
}

int KillCount() {
  const char* const value = std::getenv("MESHWRIGHT_KILLS");
  return value == nullptr ? 24 : std::stoi(value);
}

class KillTest : public testing::Test {
 protected:
  // Runs a study that nothing disturbs, and keeps its answer and how long it took.
  void SetUp() override {
    const Clock::time_point start = Clock::now();
    const std::string undisturbed = folder_.File("undisturbed.db");
    const Told told = RunChild(undisturbed, 0);
    life_ = Clock::now() - start;
    ASSERT_EQ(told.exit_code, 0) << told.failure;
    const Stored stored = ReadStore(undisturbed);
    ASSERT_EQ(stored.study.state, StudyState::kSucceeded);
    ASSERT_EQ(told.ended.size(), 14u);
    ASSERT_TRUE(stored.study.result.has_value());
    answer_ = AnswerOf(stored);
    calls_ = told.calls;
  }

  // Kills a study, in every third case twice, and then runs it to its end.
  void Kill(int number, long kill_at, std::optional<Clock::duration> life) {
    SCOPED_TRACE(fmt::format("kill {} at change {}", number, kill_at));
    const std::string store = folder_.File(fmt::format("{}.db", number));
    const Told first = RunChild(store, kill_at, life);
    EXPECT_EQ(first.failure, "");
    killed_ += first.signal == SIGKILL ? 1 : 0;
    Stored before = ReadStore(store);
    ExpectKept(first, before);
    if (number % 3 == 0) {
      const Told second = RunChild(store, 1 + static_cast<long>(random_() % 100));
      EXPECT_EQ(second.failure, "");
      killed_again_ += second.signal == SIGKILL ? 1 : 0;
      const Stored between = ReadStore(store);
      ExpectKept(first, between);
      ExpectKept(second, between);
      before = between;
    }
    const Told last = RunChild(store, 0);
    EXPECT_EQ(last.failure, "");
    EXPECT_EQ(last.exit_code, 0);
    const Stored after = ReadStore(store);
    ExpectKept(first, after);
    ExpectNothingTwice(before, after);
    EXPECT_EQ(after.study.state, StudyState::kSucceeded);
    EXPECT_EQ(AnswerOf(after), answer_) << "another answer";
  }

  const TemporaryFolder folder_;
  std::string answer_;
  long calls_ = 0;  // changes of files in a study
  Clock::duration life_ = {};
  std::mt19937 random_{20261122};
  int killed_ = 0;
  int killed_again_ = 0;
};

// The kills are spread evenly over all changes of files.
TEST_F(KillTest, LosesNothingDoublesNothingAndAnswersTheSame) {
  const int kills = KillCount();
  for (int i = 0; i < kills; ++i) Kill(i, 1 + i * calls_ / kills, {});
  EXPECT_EQ(killed_, kills);
  fmt::print("{} studies killed, {} once more; {} changes of files in one\n", killed_,
             killed_again_, calls_);
}

// scripts/kill.sh runs this one, because it depends on the clock: it kills at random times, also
// between two changes. A study may end before it is killed.
TEST_F(KillTest, DISABLED_SurvivesKillsAtRandomTimes) {
  const int kills = KillCount() / 4;
  for (int i = 0; i < kills; ++i) Kill(i, 0, life_ * static_cast<int>(random_() % 1000) / 1000);
  fmt::print("{} of {} studies killed, {} once more\n", killed_, kills, killed_again_);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
