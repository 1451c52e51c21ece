#pragma once

#include <optional>

#include "estimator/kernel.h"
#include "search_space/chip.h"
#include "search_space/choices.h"

namespace meshwright {

// What sets the speed of kernels on one device of a pool.
struct DeviceRates {
  FlopsPerSecond peak = {};  // nominal, of the workload's precision
  double element_bytes = 2;  // of a GEMM operand
  double sustained_time_ratio = 1;
  FlopsPerSecond vector_peak = {};
};

// Dense peak of the chip at a precision; fp8 falls on nothing else. Absent when the chip has no
// such unit.
std::optional<FlopsPerSecond> NominalPeak(const ChipSpec& chip, Precision precision);

// Time of `shape` by the tile-and-wave form: docs/cost_model.md "GEMM" (a thread block computes a
// tile, waves of blocks fill the cores, the library picks the best tile and split of k).
// `accumulates_fp32` adds the read and write of an fp32 output (weight gradients).
Seconds MatmulTime(const MatmulShape& shape, const ChipSpec& chip, const DeviceRates& rates,
                   bool accumulates_fp32);

}  // namespace meshwright
