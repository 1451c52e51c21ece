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

// How failures of a model are handled; tests shorten the times.
struct FailurePolicy {
  std::chrono::milliseconds start_timeout{10'000};
  std::chrono::milliseconds cancel_grace{2'000};  // until a cancelled call must have ended
  std::chrono::milliseconds first_back_off{100};  // before a restart; doubles each time
  std::chrono::milliseconds longest_back_off{5'000};
  int most_failures = 3;  // within the window; after them it is not started again
  std::chrono::milliseconds window{600'000};
};

// An event for the log: "started", "failed", "poisoned", "given_up"; and "not_started" and
// "not_opened", whose error goes to the caller.
using ModelEvent = std::function<void(std::string_view event, const std::string& what)>;

// A model of the folder that is started at the first question, and again after it has crashed or
// hung. A batch on which it fails is halved until the plans at fault are found; these are not asked
// again, the others are. All callers share one process, in which calls run one after another; a
// waiting caller can be cancelled. Safe from any thread.
class RunningModel {
 public:
  RunningModel(ModelManifest manifest, FailurePolicy policy, ModelEvent on_event);
  ~RunningModel();
  RunningModel(const RunningModel&) = delete;
  RunningModel& operator=(const RunningModel&) = delete;

  // Starts it if it does not run. UNAVAILABLE with reason COST_MODEL_START or COST_MODEL_GIVEN_UP.
  absl::StatusOr<ModelInfo> Start(const std::stop_token& cancel);
  [[nodiscard]] std::string Isolation();  // as far as the kernel allowed it
  [[nodiscard]] int Pid();                // the keeper's; 0 if it does not run

  // A problem's context in the running process; opened again in the next one. For one thread.
  struct Context {
    const Problem* problem = nullptr;  // must outlive it
    CalibrationParameters calibration = {};
    std::string key = {};      // equal for equal problems with equal calibrations
    std::int64_t process = 0;  // the process that has it
    std::int64_t handle = 0;
    ModelVersion version = {};               // that process's own, without the calibration's
    std::vector<std::string> warnings = {};  // the model's own about the problem
    bool refuses_bounds = false;             // the model refuses them for this problem
  };
  // Opens the problem's context. FAILED_PRECONDITION with reason COST_MODEL_REFUSED if the model
  // refuses it, or if the problem needs a chip, a precision or an operator that the model does not
  // declare.
  absl::Status Open(Context& context, const std::stop_token& cancel);
  // Never waits for another call: while one is running, the next caller closes the context.
  void Close(Context& context);
  // Returns unchecked figures, one for each plan. UNAVAILABLE, CANCELLED.
  absl::StatusOr<std::vector<PlanFigures>> Estimate(Context& context,
                                                    std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options);
  // Returns unchecked bounds, one for each plan, 0 if none is known. Empty if the model has no
  // bounds, refused them for this problem, or has just failed on one: bounds save time and need not
  // cost the study. CANCELLED.
  absl::StatusOr<std::vector<double>> LowerBounds(Context& context,
                                                  std::span<const ParallelPlan> plans,
                                                  const std::stop_token& cancel);
  // These fail as the model does if it refuses (UNIMPLEMENTED: it has none), or as Estimate does.
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
  std::vector<std::pair<std::int64_t, std::int64_t>> left_;  // processes and handles to be closed
  std::timed_mutex mutex_;  // guards all below; held while the model is asked
  std::unique_ptr<ModelProcess> process_;
  std::unique_ptr<ModelClient> client_;
  ModelInfo info_;
  std::int64_t process_number_ = 0;
  std::vector<std::chrono::steady_clock::time_point> failures_;  // within the window
  std::string last_failure_;
  std::set<std::string> poison_;  // keys of problem and plan
  // Processes up to this number are not asked for bounds: one failed on them, and its successor
  // would fail as well and bring the model nearer to being given up.
  std::int64_t last_without_bounds_ = 0;
  std::optional<std::chrono::nanoseconds> slowest_batch_;  // among those that were answered
};

}  // namespace meshwright
