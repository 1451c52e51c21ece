#pragma once

#include <string>
#include <vector>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/measured.h"
#include "server/tuner/chip_calibration/chip_draft.h"
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

}  // namespace meshwright
