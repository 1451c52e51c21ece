#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_client.h"
#include "server/plugins/model_process.h"
#include "server/tuner/plan_model.h"

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

// One event of a model's life, for the log: "started", "failed", "poisoned", "given_up".
using ModelEvent = std::function<void(std::string_view event, const std::string& what)>;

// A model of the folder, started when it is first asked and again when it has crashed or hung. A
// batch that it fails on is halved until the plan is found that it fails on: that plan is not asked
// again, the others are. Whoever asks shares one process; calls follow each other. Any thread.
class RunningModel {
 public:
  RunningModel(ModelManifest manifest, FailurePolicy policy, ModelEvent on_event);
  ~RunningModel();
  RunningModel(const RunningModel&) = delete;
  RunningModel& operator=(const RunningModel&) = delete;

  // Starts it if it does not run. UNAVAILABLE, reasons COST_MODEL_START and COST_MODEL_GIVEN_UP.
  absl::StatusOr<ModelInfo> Start(const std::stop_token& cancel);
  [[nodiscard]] ModelVersion Version();
  [[nodiscard]] std::string Isolation();  // as the kernel allowed it
  [[nodiscard]] int Pid();                // of the keeper; 0: it does not run

  // A problem's context in the process that runs; opened again in the next one.
  struct Context {
    const Problem* problem = nullptr;  // outlives it
    std::string key = {};              // equal for equal problems
    std::int64_t process = 0;          // that has it
    std::int64_t handle = 0;
  };
  // Whether the model takes the problem.
  absl::Status Open(Context& context, const std::stop_token& cancel);
  void Close(Context& context);
  // Unchecked figures, one for each plan. UNAVAILABLE, CANCELLED.
  absl::StatusOr<std::vector<PlanFigures>> Estimate(Context& context,
                                                    std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options);

  void Stop();

 private:
  using Plans = std::span<const ParallelPlan>;
  using Figures = std::span<PlanFigures>;
  struct Batch;

  absl::Status EnsureRunning(const std::stop_token& cancel);
  absl::Status StartOnce();
  absl::Status OpenLocked(Context& context, const std::stop_token& cancel);
  absl::Status WaitForTurn(const std::stop_token& cancel);
  absl::Status Ask(Batch& batch, Plans plans, Figures figures);
  absl::Status EstimateBatch(Batch& batch, Plans plans, Figures figures);
  absl::Status Isolate(Batch& batch, Plans plans, Figures figures, const std::string& cause);
  void LookAfterCancel();
  std::string EndProcess(const absl::Status& failure);
  void CountFailure(const std::string& what);
  [[nodiscard]] int RecentFailures();
  void Tell(std::string_view event, const std::string& what) const;

  const ModelManifest manifest_;
  const FailurePolicy policy_;
  const ModelEvent on_event_;
  std::mutex mutex_;  // all below; held while the model is asked
  std::unique_ptr<ModelProcess> process_;
  std::unique_ptr<ModelClient> client_;
  ModelInfo info_;
  std::int64_t process_number_ = 0;
  std::vector<std::chrono::steady_clock::time_point> failures_;  // in the window
  std::string last_failure_;
  std::set<std::string> poison_;                // problem and plan
  std::chrono::milliseconds slowest_batch_{0};  // of those that were answered
};

}  // namespace meshwright
