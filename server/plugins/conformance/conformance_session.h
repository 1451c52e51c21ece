#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/model_process.h"
#include "server/plugins/output_check.h"
#include "server/plugins/wire/call_limits.h"
#include "server/plugins/wire/model_client.h"
#include "server/plugins/wire/model_stub.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The result of a check: nothing, a fault, or a reason why it does not apply.
struct Finding {
  CheckOutcome outcome = CheckOutcome::kPassed;
  std::string detail = {};
};
inline Finding Passed(std::string detail = {}) {
  return {.outcome = CheckOutcome::kPassed, .detail = std::move(detail)};
}
inline Finding Failed(std::string detail) {
  return {.outcome = CheckOutcome::kFailed, .detail = std::move(detail)};
}
inline Finding Skipped(std::string detail) {
  return {.outcome = CheckOutcome::kSkipped, .detail = std::move(detail)};
}
Finding Failed(std::string_view what, const absl::Status& status);

// A model under check: its process, and its calls as they are on the wire.
class ConformanceSession {
 public:
  using Stub = costmodel::v1::CostModelService::Stub;
  using Answers = absl::StatusOr<std::vector<PlanFigures>>;

  ConformanceSession(ProcessSpec spec, const Problem& problem,
                     std::chrono::milliseconds start_limit)
      : spec_(std::move(spec)), problem_(problem), start_limit_(start_limit) {}

  // Starts the model, or restarts it if it runs.
  absl::Status Restart();
  void Stop();
  // Checks that the model answers within two seconds.
  absl::Status Ping();

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const ModelInfo& info() const { return info_; }
  // Returns the process of a model that was started; it need not run any more.
  [[nodiscard]] ModelProcess& process() { return *process_; }
  [[nodiscard]] std::string isolation() const {
    return process_ == nullptr ? std::string() : process_->isolation();
  }
  [[nodiscard]] std::string log_tail() const {
    return process_ == nullptr ? std::string() : process_->log_tail();
  }
  [[nodiscard]] bool is_running() const { return process_ != nullptr && stub_ != nullptr; }
  Stub& stub() { return *stub_; }

  absl::StatusOr<std::int64_t> Open(const Problem& problem);
  absl::StatusOr<std::int64_t> Open(const costmodel::v1::OpenContextRequest& request);
  absl::Status Close(std::int64_t context);
  Answers Ask(std::int64_t context, const std::vector<ParallelPlan>& plans);
  absl::StatusOr<costmodel::v1::EstimateBatchResponse> AskRaw(
      std::int64_t context, const costmodel::v1::Candidates& candidates,
      const CallLimits& limits = {});
  // Asks in a context of its own.
  Answers AskAbout(const Problem& problem, const std::vector<ParallelPlan>& plans);

 private:
  ProcessSpec spec_;
  const Problem& problem_;
  std::chrono::milliseconds start_limit_;
  std::unique_ptr<ModelProcess> process_;
  std::unique_ptr<Stub> stub_;
  ModelInfo info_;
};

// Returns up to `count` legal plans of the problem, all different.
std::vector<ParallelPlan> ConformancePlans(const Problem& problem, std::size_t count);

// Compares to the bit.
bool AreEqual(const PlanFigures& a, const PlanFigures& b);
// Compares except for noise: the same verdict, and times that differ by at most a tenth. Impossible
// times are left to the check of physics.
bool AreAlike(const PlanFigures& a, const PlanFigures& b);
bool IsLikelyTime(Seconds time);  // finite and above 0

// A check. The lists below are in the order in which they run, with a file each: the versions that
// a model speaks, its answers, known memory, optional parts, and behaviour.
struct ConformanceCheck {
  std::string_view name;
  std::string_view what;
  Finding (*run)(ConformanceSession& session);
};
// The first of these decides if the model can be asked anything else.
std::vector<ConformanceCheck> VersionChecks();
std::vector<ConformanceCheck> AnswerChecks();
std::vector<ConformanceCheck> MemoryChecks();
std::vector<ConformanceCheck> OptionalChecks();
std::vector<ConformanceCheck> BehaviourChecks();

}  // namespace meshwright
