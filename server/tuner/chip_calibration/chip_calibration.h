#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/fit/measured.h"
#include "server/tuner/chip_calibration/chip_draft.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

enum class OperatorVerdict {
  kGood,      // the held-out error is within the limit
  kTooFew,    // measured, but too few points to hold some out
  kPoor,      // above the limit
  kMeasured,  // taken as it was measured: there is no error to judge it by
  kAssumed,   // not measured: the chip's figures stand as they were
};

// The 90th percentile of held-out errors may be so many times the limit of their median: a form
// whose typical error is good can be far off at the shapes that one model runs.
inline constexpr double kP90OverMedianLimit = 5;

// One operator of a chip, and what the measurements taught of it.
struct OperatorFit {
  std::string name = {};    // gemm, attention, memory_bound, all_reduce, ...
  std::string detail = {};  // bf16; 8 ranks
  int point_count = 0;
  FitError before = {};    // of the chip's figures as they were, over all points
  FitError held_out = {};  // of the fit, over points that it had not seen
  double limit_ratio = 0;  // of held_out's median; 0: none
  OperatorVerdict verdict = OperatorVerdict::kAssumed;
  std::string advice = {};  // what to measure; empty: nothing
  bool is_needed = true;    // by most plans: the chip is not ready without it
};

struct ChipCalibration {
  std::string name = {};         // given by the user
  std::string device_name = {};  // of what was measured
  ChipEntry entry = {};          // the calibrated chip
  std::vector<OperatorFit> operators = {};
  std::vector<FigureChange> changes = {};
  std::vector<std::string> warnings = {};
  bool is_quick = false;  // of microbenchmarks that were a test of the program
};

// `base` with the constants that `measurements` teach; what they say nothing of stays as it is.
// Peaks and bandwidths that are published stay too: efficiencies are shares of them. `name` is kept
// as the source of each figure. INVALID_ARGUMENT where a figure would leave the range that chip
// files allow, and where what was measured cannot be this chip by its published figures.
absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name);

// Whether plans can be trusted to the calibrated chip: every operator that plans need was measured,
// with points enough to hold some out, and is good. Otherwise what stands in the way, each in a few
// words.
std::vector<std::string> WhyNotReady(const ChipCalibration& calibration);
bool IsReady(const ChipCalibration& calibration);

}  // namespace meshwright
