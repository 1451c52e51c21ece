#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_process.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/model_client.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// How failures of a model are met; tests shorten the times.
struct FailurePolicy {
  std::chrono::milliseconds start_timeout{10'000};
  std::chrono::milliseconds cancel_grace{2'000};  // until a call that was cancelled must be over
  std::chrono::milliseconds first_back_off{100};  // before a restart; doubles
  std::chrono::milliseconds longest_back_off{5'000};
  int most_failures = 3;  // in the window: then it is not started again
  std::chrono::milliseconds window{600'000};
};

// One event of a model's life, for the log: "started", "failed", "poisoned", "given_up"; and
// "not_started" and "not_opened", of which the error tells whoever asked.
using ModelEvent = std::function<void(std::string_view event, const std::string& what)>;

// A model of the folder, started when it is first asked and again when it has crashed or hung. A
// batch that it fails on is halved until the plans are found that it fails on: they are not asked
// again, the others are. Whoever asks shares one process; calls follow each other, and who waits
// for another's can be cancelled. Any thread.
class RunningModel {
 public:
  RunningModel(ModelManifest manifest, FailurePolicy policy, ModelEvent on_event);
  ~RunningModel();
  RunningModel(const RunningModel&) = delete;
  RunningModel& operator=(const RunningModel&) = delete;

  // Starts it if it does not run. UNAVAILABLE, reasons COST_MODEL_START and COST_MODEL_GIVEN_UP.
  absl::StatusOr<ModelInfo> Start(const std::stop_token& cancel);
  [[nodiscard]] std::string Isolation();  // as the kernel allowed it
  [[nodiscard]] int Pid();                // of the keeper; 0: it does not run

  // A problem's context in the process that runs; opened again in the next one. Of one thread.
  struct Context {
    const Problem* problem = nullptr;  // outlives it
    CalibrationParameters calibration = {};
    std::string key = {};      // equal for equal problems with equal calibrations
    std::int64_t process = 0;  // that has it
    std::int64_t handle = 0;
    ModelVersion version = {};               // of that process; without the calibration's
    std::vector<std::string> warnings = {};  // of the model, about the problem
    bool refuses_bounds = false;             // the model, for this problem
  };
  // Whether the model takes the problem: FAILED_PRECONDITION, COST_MODEL_REFUSED, where it does
  // not, or where the problem needs a chip, a precision or an operator that it does not declare.
  absl::Status Open(Context& context, const std::stop_token& cancel);
  // Waits for no other's call: while one is under way, the next to ask closes it.
  void Close(Context& context);
  // Unchecked figures, one for each plan. UNAVAILABLE, CANCELLED.
  absl::StatusOr<std::vector<PlanFigures>> Estimate(Context& context,
                                                    std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options);
  // Unchecked bounds, one for each plan; 0 where none is known. Empty: it has none, or refused them
  // for this problem, or has just failed on one: bounds save time, and need not cost the study.
  // CANCELLED.
  absl::StatusOr<std::vector<double>> LowerBounds(Context& context,
                                                  std::span<const ParallelPlan> plans,
                                                  const std::stop_token& cancel);
  // These fail as the model does when it refuses (UNIMPLEMENTED: it has none), or as Estimate.
  absl::StatusOr<std::vector<std::string>> Explain(Context& context, const ParallelPlan& plan,
                                                   const std::stop_token& cancel);
  absl::StatusOr<std::vector<CalibrationTest>> ListCalibrationTests(const std::string& chip,
                                                                    const std::stop_token& cancel);
  absl::StatusOr<FittedCalibration> FitCalibration(const std::string& chip,
                                                   std::span<const TestMeasurement> measurements,
                                                   const std::stop_token& cancel);

  void Stop();

 private:
  using Plans = std::span<const ParallelPlan>;
  using Figures = std::span<PlanFigures>;
  struct Batch;

  using Turn = std::unique_lock<std::timed_mutex>;

  absl::StatusOr<Turn> TakeTurn(const std::stop_token& cancel);
  void CloseLeft();
  absl::Status EnsureRunning(const std::stop_token& cancel);
  absl::Status StartOnce(const std::stop_token& cancel);
  absl::Status OpenLocked(Context& context, const std::stop_token& cancel);
  absl::Status BackOff(const std::stop_token& cancel);
  absl::Status Ask(Batch& batch, Plans plans, Figures figures);
  absl::Status EstimateBatch(Batch& batch, Plans plans, Figures figures);
  absl::Status LearnItsPace(Batch& batch, Plans plans, Figures figures);
  absl::Status Isolate(Batch& batch, Plans plans, Figures figures);
  [[nodiscard]] std::chrono::milliseconds Patience(std::chrono::milliseconds whole,
                                                   std::size_t part, std::size_t size) const;
  void Condemn(const Context& context, const ParallelPlan& plan, PlanFigures& figures,
               const absl::Status& failure);
  template <typename Call>
  auto CallOnce(const std::stop_token& cancel, const Call& call);
  [[nodiscard]] bool IsPoison(const Context& context, const ParallelPlan& plan) const;
  [[nodiscard]] std::size_t BatchLimit() const;
  void LookAfterCancel();
  std::string EndProcess(const absl::Status& failure);
  void CountFailure(const std::string& what, std::string_view event = "failed");
  [[nodiscard]] int RecentFailures();
  void Tell(std::string_view event, const std::string& what) const;

  const ModelManifest manifest_;
  const FailurePolicy policy_;
  const ModelEvent on_event_;
  std::mutex left_mutex_;
  std::vector<std::pair<std::int64_t, std::int64_t>> left_;  // processes and handles, to be closed
  std::timed_mutex mutex_;  // all below; held while the model is asked
  std::unique_ptr<ModelProcess> process_;
  std::unique_ptr<ModelClient> client_;
  ModelInfo info_;
  std::int64_t process_number_ = 0;
  std::vector<std::chrono::steady_clock::time_point> failures_;  // in the window
  std::string last_failure_;
  std::set<std::string> poison_;  // problem and plan
  // Processes up to this number are not asked for bounds: one failed on them, and the next, which
  // takes its place, would fail like it and bring the model nearer to being given up.
  std::int64_t last_without_bounds_ = 0;
  std::optional<std::chrono::nanoseconds> slowest_batch_;  // of those that were answered
};

}  // namespace meshwright
