#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The source of a number that is not the built-in model's.
struct ModelVersion {
  std::string name = {};
  std::string vendor = {};
  std::string version = {};
  std::string protocol = {};  // "1.0"
  std::string checksum = {};  // SHA-256 of the program or library, hexadecimal
  // Identifies the parameters that were fitted for the chip; equal parameters have equal values.
  // Empty: the model's own.
  std::string calibration = {};
  bool is_deterministic = false;  // as the model itself states
  bool operator==(const ModelVersion&) const = default;
};

enum class PlanVerdict { kOk, kInfeasibleMemory, kUnsupported, kError };

// A vendor's model's figures for one plan. The numbers are set if the verdict is kOk.
struct PlanFigures {
  PlanVerdict verdict = PlanVerdict::kError;
  std::string reason = {};  // set if the verdict is not kOk
  Seconds step_time = Seconds(0);
  std::optional<Seconds> step_time_low = {};  // these two bound the central 80 %
  std::optional<Seconds> step_time_high = {};
  std::optional<Bytes> peak_memory = {};  // on the busiest device
  // Filled on request; adds up to the step time. Names are those of TimeCause or the vendor's own.
  std::vector<std::pair<std::string, Seconds>> breakdown = {};
};

struct BatchOptions {
  bool with_breakdown = false;
  std::stop_token cancel = {};
};

// A cost model that is not built in. It is asked about the plans of one problem, from one thread.
// Studies know vendors' models only through this interface (server/plugins/ implements it).
class PlanModel {
 public:
  // `warnings` are added to every answer that relies on the model.
  explicit PlanModel(ModelVersion version, std::vector<std::string> warnings = {})
      : version_(std::move(version)), warnings_(std::move(warnings)) {}
  PlanModel(const PlanModel&) = delete;
  PlanModel& operator=(const PlanModel&) = delete;
  virtual ~PlanModel() = default;

  [[nodiscard]] const ModelVersion& version() const { return version_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  // Returns one answer per plan, in their order. Plans do not affect each other: one that crashes
  // the model is kError. Returns UNAVAILABLE if the model can no longer be asked; CANCELLED.
  virtual absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                            const BatchOptions& options) = 0;

  // The following functions are optional for a model.

  // Returns for each plan a lower bound of its estimate, which is cheaper to compute: finite, and 0
  // if no bound is known. Returns an empty vector if the model has no bounds; CANCELLED.
  virtual absl::StatusOr<std::vector<Seconds>> LowerBounds(std::span<const ParallelPlan> /*plans*/,
                                                           const std::stop_token& /*cancel*/) {
    return std::vector<Seconds>();
  }
  // Returns the model's explanation of a plan, for people. Returns UNIMPLEMENTED if it has none;
  // UNAVAILABLE; CANCELLED.
  virtual absl::StatusOr<std::vector<std::string>> Explain(const ParallelPlan& /*plan*/,
                                                           const std::stop_token& /*cancel*/) {
    return absl::UnimplementedError("it explains nothing");
  }

 private:
  const ModelVersion version_;
  const std::vector<std::string> warnings_;
};

// Opens a model by its name for a problem, which outlives it. Returns NOT_FOUND with the names of
// the existing models; UNAVAILABLE if it does not run; CANCELLED.
using OpenPlanModel = std::function<absl::StatusOr<std::unique_ptr<PlanModel>>(
    std::string_view name, const Problem& problem, const std::stop_token& cancel)>;

}  // namespace meshwright
