#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/measured.h"
#include "search_space/base/status.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_draft.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// State that the parts of a calibration share.
struct CalibrationWork {
  const ChipMeasurements& measured;
  const ChipEntry& before;
  ChipDraft draft;
  ChipCalibration result = {};

  [[nodiscard]] ChipSpec& spec() { return draft.spec(); }
};

// Returns the verdict on an error; `limit` is the limit of the median of held-out errors.
OperatorVerdict VerdictOf(const FitError& error, double limit);
std::string ErrorText(const FitError& error);

// Returns the origin of a figure that was fitted or taken with this verdict.
FigureOrigin OriginOf(Provenance provenance, std::string what, OperatorVerdict verdict);

std::string NumberText(double value);

// A figure that was fitted or measured.
struct FoundFigure {
  std::string_view name = {};
  double value = 0;
  std::string text = {};  // as the chip file has it; empty: NumberText(value)
  std::string size = {};  // the measurement that decided it; empty: several did
};

// Puts the figure into the draft. If no chip file may hold its value, puts it into `refused`
// instead and returns false. So it does with an efficiency at the end of its range: a fit ends
// there only if it would leave the range.
bool SetFound(CalibrationWork& work, const FoundFigure& found, const FigureOrigin& origin);

// The same for figures that belong together: if one is refused, none is set.
using Figures = std::vector<std::pair<std::string_view, double>>;
bool SetAll(CalibrationWork& work, const Figures& figures, const FigureOrigin& origin);

// Returns the item of the microbenchmarks that measures a figure.
std::string_view ItemOf(std::string_view figure);

// Adds an operator that was not measured, with the reason.
void AddMissing(CalibrationWork& work, std::string_view name, std::string_view item);

// The highest measured rate and the published figure for it.
struct ReachedRate {
  std::string item = {};  // item of the microbenchmarks
  std::string what = {};  // "the fastest bf16 GEMM"
  double measured = 0;
  std::string figure = {};
  double published = 0;
};

// Returns nullopt if a chip can have reached the rate.
std::optional<FieldViolation> Implausible(const ReachedRate& reached, bool is_quick);

// Returns |modelled / measured - 1| of points that have a `time`.
template <typename Point, typename Model>
FitError Errors(std::span<const Point> points, Model time) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const Point& point : points) errors.push_back(std::abs(time(point) / point.time - 1));
  return ErrorOf(std::move(errors));
}

}  // namespace meshwright
