#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "estimator/fit/measured.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// Fits the constants of the tile-and-wave form (docs/cost_model/gemm.md) to short bursts of one
// precision, whose peak the chip has. Constants that the points say little about stay near the
// class defaults. `points` is not empty.
GemmModel FitGemm(std::span<const MeasuredGemm> points, const ChipSpec& chip);

// Returns the keys of the chip file whose constants ended at the edge of their range: the points
// say only that the constant lies there or beyond.
std::vector<std::string_view> FiguresAtTheEdge(const GemmModel& fitted);

// Returns the modelled time of a burst, with the chip's residual tables if it has any.
Seconds GemmTime(const MeasuredGemm& point, const ChipSpec& chip);

// The parts that are fitted anew in each round of GemmHeldOutError.
enum class GemmFitParts { kConstants, kConstantsAndTable, kTable };

// Returns the error at shapes whose (n, k) the fit had not seen, in five rounds. With kTable the
// constants are those of `chip`. The result has no points if all have the same (n, k).
FitError GemmHeldOutError(std::span<const MeasuredGemm> points, const ChipSpec& chip,
                          GemmFitParts parts);

struct ShapeRatio {
  MatmulShape shape = {};
  double log_ratio = 0;  // log(measured / modelled time)
};

// Returns the mean of each octave of the four sizes, which removes the noise of single measurements
// and keeps the table small.
std::vector<GemmResidual> OctaveMeans(std::span<const ShapeRatio> ratios);

// Returns the same of measured over modelled time. All points have one precision and one pass.
std::vector<GemmResidual> SummariseResiduals(std::span<const MeasuredGemm> points,
                                             const ChipSpec& chip);

}  // namespace meshwright
