#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "estimator/fit/measured.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// The constants of the tile-and-wave form (docs/cost_model.md "GEMM") that come nearest to short
// bursts of one precision, whose peak the chip has. Constants that few points say little of stay
// near the class defaults. `points` is not empty.
GemmModel FitGemm(std::span<const MeasuredGemm> points, const ChipSpec& chip);

// Figures of chip files (their keys) whose constants ended at the edge of what the fit may try: the
// points say no more than that they lie there or beyond.
std::vector<std::string_view> FiguresAtTheEdge(const GemmModel& fitted);

// Modelled time of a burst; by the chip's residual tables too, if it has any.
Seconds GemmTime(const MeasuredGemm& point, const ChipSpec& chip);

// What is fitted anew for each round of GemmHeldOutError.
enum class GemmFitParts { kConstants, kConstantsAndTable, kTable };

// Of shapes whose (n, k) the fit had not seen, in five rounds. kTable: the constants are `chip`'s.
// Zero points where all have the same (n, k).
FitError GemmHeldOutError(std::span<const MeasuredGemm> points, const ChipSpec& chip,
                          GemmFitParts parts);

struct ShapeRatio {
  MatmulShape shape = {};
  double log_ratio = 0;  // of the measured time to the modelled one
};

// The mean of each octave of the four sizes: noise of single measurements goes, the table is small.
std::vector<GemmResidual> OctaveMeans(std::span<const ShapeRatio> ratios);

// Of measured over modelled time. All points are of one precision and one pass.
std::vector<GemmResidual> SummariseResiduals(std::span<const MeasuredGemm> points,
                                             const ChipSpec& chip);

}  // namespace meshwright
