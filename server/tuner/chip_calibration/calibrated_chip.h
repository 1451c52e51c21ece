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
  kTooFew,    // measured at too few points to hold some out
  kPoor,      // the held-out error is above the limit
  kMeasured,  // taken as measured: there is no error to judge it by
  kAssumed,   // not measured: the chip's figures are unchanged
};

// Largest allowed ratio of the 90th percentile of held-out errors to the limit of their median. A
// form whose typical error is good can be far off at the shapes of one model.
inline constexpr double kP90OverMedianLimit = 5;

// An operator of a chip, with the result of its measurements.
struct OperatorFit {
  std::string name = {};    // gemm, attention, memory_bound, all_reduce, ...
  std::string detail = {};  // bf16; 8 ranks
  int point_count = 0;
  FitError before = {};    // error of the previous figures over all points
  FitError held_out = {};  // error of the fit over points that it was not fitted to
  double limit_ratio = 0;  // limit of held_out's median; 0: none
  OperatorVerdict verdict = OperatorVerdict::kAssumed;
  std::string advice = {};  // next thing to measure; empty: nothing
  bool is_needed = true;    // most plans need it: the chip is not ready without it
};

// A measured figure that no chip file may hold. The chip keeps its figure.
struct RefusedFigure {
  std::string name = {};
  std::string value = {};
  double low = 0;
  double high = 0;
  // The fit ended at a bound, so that the measurements do not determine it.
  bool is_at_edge = false;
  std::string item = {};  // the item of the microbenchmarks to repeat
  std::string size = {};  // the measurement within the item; empty: all of it
};

struct ChipCalibration {
  std::string name = {};         // given by the user
  std::string device_name = {};  // name of the measured device
  ChipEntry entry = {};          // the calibrated chip
  std::vector<OperatorFit> operators = {};
  std::vector<FigureChange> changes = {};
  std::vector<RefusedFigure> refused = {};
  std::vector<std::string> warnings = {};
  bool is_quick = false;  // the microbenchmarks were only a test of the program
};

}  // namespace meshwright
