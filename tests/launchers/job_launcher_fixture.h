#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/launchers/jobs/job_launcher.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {

// The journal of one trial, kept in memory.
struct Notes {
  int count = 0;  // attempts
  bool is_adopted = false;
  std::vector<EarlierAttempt> earlier = {};
  Seconds earlier_time = Seconds(0);
  std::vector<std::string> lines = {};  // what was written to the journal, in order
  AttemptReport last = {};

  [[nodiscard]] OpenAttempt Newest() const {
    return {.id = fmt::format("s-t1-a{}", count),
            .token = 10 + count,
            .is_adopted = is_adopted,
            .earlier = earlier,
            .earlier_time = earlier_time};
  }

  AttemptJournal Journal() {
    return {.newest = [this]() -> absl::StatusOr<OpenAttempt> {
              count = std::max(count, 1);
              return Newest();
            },
            .update =
                [this](AttemptState state, const std::string& id,
                       const std::vector<std::string>& /*nodes*/) {
                  lines.push_back(fmt::format("a{} {} {}", count, Word(state), id));
                  return absl::OkStatus();
                },
            .again = [this](const AttemptReport& report) -> absl::StatusOr<OpenAttempt> {
              lines.push_back(fmt::format("a{} ended {}", count++, report.failure_class));
              is_adopted = false;
              return Newest();
            },
            .report = [this](const AttemptReport& report) { last = report; }};
  }
};

// An engine that returns the statuses it was given for each attempt: one per poll, and the last for
// ever.
class FakeEngine final : public JobEngine {
 public:
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override {
    submitted.push_back(spec);
    if (!refusal.ok()) return refusal;
    return fmt::format("job{}", submitted.size());
  }
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override {
    if (!silence.ok()) return silence;
    std::deque<JobStatus>& told = statuses[jobs.front().attempt_id];
    if (told.empty()) return std::vector<JobStatus>(1);
    const JobStatus status = told.front();
    if (told.size() > 1) told.pop_front();
    if (on_poll) on_poll(status);
    return std::vector{status};
  }
  absl::Status Cancel(const JobHandle& job) override {
    if (!deafness.ok()) return deafness;
    cancelled.push_back(job.attempt_id);
    if (!knows_what_it_cancels) return absl::OkStatus();
    statuses[job.attempt_id] = {
        {.state = JobState::kEnded, .end = JobEnd{.kind = JobEndKind::kCancelled}}};
    return absl::OkStatus();
  }

  std::vector<JobSpec> submitted;
  std::vector<std::string> cancelled;
  bool knows_what_it_cancels = true;
  std::map<std::string, std::deque<JobStatus>> statuses;
  absl::Status refusal;
  absl::Status silence;
  absl::Status deafness;  // the answer to requests to cancel
  std::function<void(const JobStatus&)> on_poll;
};

inline JobStatus Pending() { return {.external_id = "7", .state = JobState::kPending}; }
inline JobStatus Running() { return {.external_id = "7", .state = JobState::kRunning}; }
inline JobStatus Ended(JobEnd end, std::vector<std::string> nodes = {}) {
  return {.external_id = "7", .state = JobState::kEnded, .nodes = std::move(nodes), .end = end};
}

// Its clock moves when the launcher sleeps, and never else.
class JobLauncherTest : public testing::Test {
 protected:
  JobLauncherTest() {
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    MakeLauncher(std::move(engine));
  }

  void MakeLauncher(std::unique_ptr<JobEngine> engine) {
    options_.make_job = [this](const ParallelPlan& plan, const OpenAttempt& attempt,
                               Seconds time_limit) -> absl::StatusOr<JobSpec> {
      return JobSpec{
          .command = {"bash", "-c", script_, "bash", attempt.id, std::to_string(attempt.token)},
          .processes_per_node = plan.tensor_parallel,
          .time_limit = time_limit};
    };
    options_.journal = notes_.Journal();
    options_.folder = folder_;
    launcher_ = std::make_unique<JobLauncher>(std::move(engine), options_);
  }

  void WriteFile(const std::string& name, const std::string& attempt, int token,
                 const std::string& members) {
    std::ofstream(folder_ + "/" + name) << fmt::format(
        R"({{"meshwright_result":1,"attempt":"{}","token":{},{}}})", attempt, token, members);
  }
  void WriteResult(const std::string& attempt, int token, const std::string& members) {
    WriteFile(attempt + ".result.json", attempt, token, members);
  }

  absl::StatusOr<FinishedTrial> Run(std::optional<Seconds> time_left = {}) {
    RETURN_IF_ERROR(
        launcher_->Submit({.id = 4, .plan = {.tensor_parallel = 2}, .time_left = time_left}));
    for (int i = 0; i < 2000; ++i) {
      ASSIGN_OR_RETURN(const auto finished, launcher_->Wait(Seconds(0.01)));
      if (finished.has_value()) return *finished;
    }
    return absl::DeadlineExceededError("the trial does not end");
  }

  // Runs the trial with a job that ended in this way, without a result.
  TrialOutcome After(JobEnd end) {
    engine_->statuses["s-t1-a1"] = {Running(), Ended(end)};
    const auto finished = Run();
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? finished->outcome : TrialOutcome(Cancelled());
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::string script_ = "true";
  Notes notes_;
  FakeEngine* engine_ = nullptr;
  std::chrono::steady_clock::time_point now_ = {};
  JobLauncherOptions options_ = {
      .poll_interval = Seconds(0.001),
      .lost_limit = Seconds(0.05),
      .collect_limit = Seconds(0.02),
      .silence_limit = Seconds(0.05),
      .clock = {
          .now = [this] { return now_; },
          .sleep_until = [this](std::chrono::steady_clock::time_point time) { now_ = time; }}};
  std::unique_ptr<JobLauncher> launcher_;
};

}  // namespace meshwright
