#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/call_limits.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// A model's description of itself. The texts are clean (search_space/base/clean_text.h) and at most
// 256 bytes long, and lists have at most 256 of them.
struct ModelInfo {
  int protocol_major = 0;
  int protocol_minor = 0;
  std::string name = {};
  std::string vendor = {};
  std::string version = {};
  std::string description = {};
  std::vector<std::string> chips = {};
  std::vector<std::string> precisions = {};
  std::vector<std::string> operators = {};
  bool is_deterministic = false;
  int max_batch_size = 0;  // 0: no limit
  int max_concurrent_batches = 1;
  double candidates_per_second = 0;  // 0: none is promised
  bool has_explain = false;
  bool has_lower_bound = false;
  bool has_calibration = false;
};

// A problem's context in a model.
struct OpenedContext {
  std::int64_t handle = 0;
  std::vector<std::string> warnings = {};  // clean, at most 16
};

// A connection to a model's socket. Answers are returned as they came, not checked
// (output_check.h). Safe from any number of threads.
class ModelClient {
 public:
  // UNAVAILABLE if nobody serves there; CANCELLED.
  static absl::StatusOr<std::unique_ptr<ModelClient>> Connect(const std::string& socket,
                                                              std::chrono::milliseconds timeout,
                                                              const std::stop_token& cancel = {});
  ~ModelClient();
  ModelClient(const ModelClient&) = delete;
  ModelClient& operator=(const ModelClient&) = delete;

  // Asks what the model says about itself, in whatever version.
  absl::StatusOr<ModelInfo> AskInfo(const CallLimits& limits);
  // Asks the same. FAILED_PRECONDITION with reason COST_MODEL_PROTOCOL if it has another major
  // version, or no name or version.
  absl::StatusOr<ModelInfo> GetInfo(const CallLimits& limits);
  // Checks with grpc.health.v1 that it serves.
  absl::Status CheckHealth(const CallLimits& limits);
  absl::StatusOr<OpenedContext> OpenContext(const Problem& problem,
                                            const CalibrationParameters& calibration,
                                            const CallLimits& limits);
  absl::Status CloseContext(std::int64_t context, const CallLimits& limits);
  absl::StatusOr<std::vector<PlanFigures>> EstimateBatch(std::int64_t context,
                                                         std::span<const ParallelPlan> plans,
                                                         const Problem& problem,
                                                         const CallLimits& limits);
  // A model may lack the calls from here on: UNIMPLEMENTED.
  absl::StatusOr<std::vector<double>> LowerBound(std::int64_t context,
                                                 std::span<const ParallelPlan> plans,
                                                 const Problem& problem, const CallLimits& limits);
  // Returns clean lines, at most 256.
  absl::StatusOr<std::vector<std::string>> Explain(std::int64_t context, const ParallelPlan& plan,
                                                   const Problem& problem,
                                                   const CallLimits& limits);
  absl::StatusOr<std::vector<CalibrationTest>> ListCalibrationTests(const std::string& chip,
                                                                    const CallLimits& limits);
  absl::StatusOr<FittedCalibration> FitCalibration(const std::string& chip,
                                                   std::span<const TestMeasurement> measurements,
                                                   const CallLimits& limits);

 private:
  struct Channel;
  explicit ModelClient(std::unique_ptr<Channel> channel);
  std::unique_ptr<Channel> channel_;
};

}  // namespace meshwright
