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

// Who made a number that is not the built-in model's.
struct ModelVersion {
  std::string name = {};
  std::string vendor = {};
  std::string version = {};
  std::string protocol = {};  // "1.0"
  std::string checksum = {};  // SHA-256 of the program or library, hexadecimal
  // Of the parameters that were fitted for the chip; empty: the model's own. Equal for equal ones.
  std::string calibration = {};
  bool is_deterministic = false;  // by its own word
  bool operator==(const ModelVersion&) const = default;
};

enum class PlanVerdict { kOk, kInfeasibleMemory, kUnsupported, kError };

// What a vendor's model says of one plan. The numbers stand where the verdict is kOk.
struct PlanFigures {
  PlanVerdict verdict = PlanVerdict::kError;
  std::string reason = {};  // where the verdict is another
  Seconds step_time = Seconds(0);
  std::optional<Seconds> step_time_low = {};  // these two bound the central 80 %
  std::optional<Seconds> step_time_high = {};
  std::optional<Bytes> peak_memory = {};  // of the busiest device
  // Asked for: adds up to the step time; names of TimeCause, or the vendor's own.
  std::vector<std::pair<std::string, Seconds>> breakdown = {};
};

struct BatchOptions {
  bool with_breakdown = false;
  std::stop_token cancel = {};
};

// A cost model that is not built in, asked about the plans of one problem, from one thread. It is
// the only thing that a study knows of vendors' models (server/plugins/ has them).
class PlanModel {
 public:
  // `warnings`: what every answer that leans on it must say.
  explicit PlanModel(ModelVersion version, std::vector<std::string> warnings = {})
      : version_(std::move(version)), warnings_(std::move(warnings)) {}
  PlanModel(const PlanModel&) = delete;
  PlanModel& operator=(const PlanModel&) = delete;
  virtual ~PlanModel() = default;

  [[nodiscard]] const ModelVersion& version() const { return version_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  // One answer for each plan, in their order, whatever becomes of the others: a plan that the model
  // crashes on is kError. UNAVAILABLE: the model can be asked nothing any more; CANCELLED.
  virtual absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                            const BatchOptions& options) = 0;

  // Models may lack the rest.

  // For each plan a time that its estimate is not below, cheaper than the estimate; finite, and 0
  // where no bound is known. Empty: it has none. CANCELLED.
  virtual absl::StatusOr<std::vector<Seconds>> LowerBounds(std::span<const ParallelPlan> /*plans*/,
                                                           const std::stop_token& /*cancel*/) {
    return std::vector<Seconds>();
  }
  // What the model says of a plan, for people. UNIMPLEMENTED: it says nothing; UNAVAILABLE;
  // CANCELLED.
  virtual absl::StatusOr<std::vector<std::string>> Explain(const ParallelPlan& /*plan*/,
                                                           const std::stop_token& /*cancel*/) {
    return absl::UnimplementedError("it explains nothing");
  }

 private:
  const ModelVersion version_;
  const std::vector<std::string> warnings_;
};

// Opens a model by its name for a problem, which outlives it. NOT_FOUND names the models that there
// are; UNAVAILABLE: it does not run; CANCELLED.
using OpenPlanModel = std::function<absl::StatusOr<std::unique_ptr<PlanModel>>(
    std::string_view name, const Problem& problem, const std::stop_token& cancel)>;

}  // namespace meshwright
