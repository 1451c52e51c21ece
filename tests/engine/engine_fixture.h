#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/search_space/models.h"

namespace meshwright {

inline StudyRequest SmallStudy() {
  return {.question = {.model = Llama2_7b(),
                       .workload = {.sequence_length = 2048, .global_batch_size = 16},
                       .cluster = {.name = "small",
                                   .pools = {{.name = "a",
                                              .chip = "nvidia-a100-sxm4-80gb",
                                              .node_count = 1,
                                              .devices_per_node = 8}}}}};
}

// Returns the same question under a name that HeldUp recognises.
inline StudyRequest EndlessStudy() {
  StudyRequest request = SmallStudy();
  request.question.cluster.name = "endless";
  return request;
}

inline const Knowledge& SharedKnowledge() {
  static const Knowledge knowledge = *LoadKnowledge("");
  return knowledge;
}

inline ResolvedStudy ResolvedBy(StudyRequest request) {
  return ResolveStudy(std::move(request), SharedKnowledge()).value();
}

// Runs a study as RunStudy does, except that an endless study runs until it is cancelled and
// reports progress as fast as it can.
inline absl::StatusOr<StudyAnswer> HeldUp(const ResolvedStudy& study, const Knowledge& knowledge,
                                          const StudyControl& control) {
  const std::string& name = study.request.question.cluster.name;
  if (name == "throwing") throw std::bad_alloc();
  if (name != "endless") return RunStudy(study, knowledge, control);
  for (Progress progress = {.phase = "search"}; !control.cancel.stop_requested();
       ++progress.considered_count) {
    control.on_progress(progress);
  }
  return absl::CancelledError("cancelled before anything was found");
}

// Returns a codec that writes only the fields in which these studies differ.
inline StudyCodec TestCodec() {
  return {.encode_request =
              [](const StudyRequest& r) {
                return fmt::format("{} {}", r.question.cluster.name, r.plan_count);
              },
          .decode_request = [](std::string_view text) -> absl::StatusOr<ResolvedStudy> {
            const std::size_t blank = text.find(' ');
            if (blank == std::string_view::npos) return absl::DataLossError("not a request");
            StudyRequest request = SmallStudy();
            request.question.cluster.name = text.substr(0, blank);
            request.plan_count = std::stoi(std::string(text.substr(blank + 1)));
            return ResolveStudy(std::move(request), SharedKnowledge());
          },
          .read_launcher = [](std::string_view) { return std::string(); },
          .encode_answer =
              [](const StudyAnswer& answer) {
                return std::string(answer.index() == 0 ? "result" : "infeasible");
              },
          .encode_plan = [](const ParallelPlan& plan) { return MakePlanKey(plan).text; },
          .encode_estimate = [](const Estimate&) { return std::string("estimate"); },
          .encode_progress =
              [](const Progress& progress) { return std::to_string(progress.considered_count); },
          .encode_calibration = [](const CalibrationReport& report) { return report.id; },
          .encode_question = [](const Question& question) { return question.cluster.name; },
          .decode_question = [](std::string_view name) -> absl::StatusOr<Question> {
            Question question = SmallStudy().question;
            question.cluster.name = name;
            return question;
          }};
}

// Everything that one subscription received.
class EventLog {
 public:
  EventSink Sink() {
    return [this](const std::optional<EventRecord>& event) {
      const std::lock_guard lock(mutex_);
      if (event.has_value()) events_.push_back(*event);
      has_ended_ = has_ended_ || !event.has_value();
      changed_.notify_all();
    };
  }
  bool WaitForEnd() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return has_ended_; });
  }
  bool WaitForState(const std::string& state) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return Holds(state); });
  }
  bool WaitForProgress(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return std::ranges::count(events_, "progress", &EventRecord::kind) >= count;
    });
  }
  std::vector<EventRecord> Events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::vector<std::string> States() {
    std::vector<std::string> states;
    for (const EventRecord& event : Events()) {
      if (event.kind == kStateEventKind) states.push_back(event.payload);
    }
    return states;
  }

 private:
  static constexpr std::chrono::seconds kPatience{120};  // for a busy machine
  bool Holds(const std::string& state) const {
    for (const EventRecord& event : events_) {
      if (event.kind == kStateEventKind && event.payload == state) return true;
    }
    return false;
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EventRecord> events_;
  bool has_ended_ = false;
};

// A store on a real file, with engines on it, one at a time.
class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    std::string name = (std::filesystem::temp_directory_path() / "engine_test.XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~EngineTest() override {
    engine_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Recorder OpenStore() {
    auto recorder = Recorder::Open({.path = (folder_ / "history.db").string()});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return *std::move(recorder);
  }
  Engine& StartEngine() { return StartEngine(TestCodec(), {.run = HeldUp}); }
  Engine& StartEngine(StudyCodec codec, EngineHooks hooks) {
    auto engine = Engine::Start(OpenStore(), SharedKnowledge(), std::move(codec), std::move(hooks));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    return *engine_;
  }
  void StopEngine() { engine_.reset(); }

  // Creates a study and returns its id.
  std::string Create(const StudyRequest& request) {
    const auto study = engine_->CreateStudy(ResolvedBy(request), {});
    EXPECT_TRUE(study.ok()) << study.status();
    return study.ok() ? study->id : "";
  }
  // Returns the study once it has ended.
  StudyRecord Ended(const std::string& id) {
    EventLog log;
    const auto subscription = engine_->Subscribe(id, 0, log.Sink());
    EXPECT_TRUE(subscription.ok()) << subscription.status();
    EXPECT_TRUE(log.WaitForEnd());
    engine_->Unsubscribe(*subscription);
    return *engine_->queries().GetStudy(id);
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace meshwright
