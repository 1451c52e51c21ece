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

// What the parts of a calibration share.
struct CalibrationWork {
  const ChipMeasurements& measured;
  const ChipEntry& before;
  ChipDraft draft;
  ChipCalibration result = {};

  [[nodiscard]] ChipSpec& spec() { return draft.spec(); }
};

// `limit` is that of the median of held-out errors.
OperatorVerdict VerdictOf(const FitError& error, double limit);
std::string ErrorText(const FitError& error);

// What a figure is worth that was fitted, or taken, with this verdict.
FigureOrigin OriginOf(Provenance provenance, std::string what, OperatorVerdict verdict);

std::string NumberText(double value);

using Figures = std::vector<std::pair<std::string_view, double>>;
void SetAll(CalibrationWork& work, const Figures& figures, const FigureOrigin& origin);

// An operator that was not measured, and why.
void AddMissing(CalibrationWork& work, std::string_view name, std::string_view item);

// The fastest that was measured, and the figure that is published for it.
struct ReachedRate {
  std::string item = {};  // of the microbenchmarks
  std::string what = {};  // the fastest bf16 GEMM
  double measured = 0;
  std::string figure = {};
  double published = 0;
};

// Nothing where a chip can have reached it.
std::optional<FieldViolation> Implausible(const ReachedRate& reached, bool is_quick);

// |modelled / measured - 1| of points with a `time`.
template <typename Point, typename Model>
FitError Errors(std::span<const Point> points, Model time) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const Point& point : points) errors.push_back(std::abs(time(point) / point.time - 1));
  return ErrorOf(std::move(errors));
}

}  // namespace meshwright
