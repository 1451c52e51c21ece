#pragma once

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "estimator/terms/kernel.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The rates that set the speed of kernels on one device of a pool.
struct DeviceRates {
  FlopsPerSecond peak = {};  // nominal, of the workload's precision
  double element_bytes = 2;  // size of a GEMM's operand
  double sustained_time_ratio = 1;
  double power_time_ratio = 1;  // clock at the chip's usual power limit / clock at the site's
  FlopsPerSecond vector_peak = {};
  Precision precision = Precision::kBf16;
};

// Returns the dense peak of the chip at a precision; nullopt if the chip has no such unit. Nothing
// replaces a missing fp8 peak.
std::optional<FlopsPerSecond> NominalPeak(const ChipSpec& chip, Precision precision);

// Returns the time of `shape` by the tile-and-wave form: docs/cost_model/gemm.md (a thread block
// computes a tile, waves of blocks fill the cores, the library picks the best tile and split of k).
// `accumulates_fp32` adds the read and write of an fp32 output (weight gradients).
Seconds MatmulTime(const MatmulShape& shape, const ChipSpec& chip, const DeviceRates& rates,
                   bool accumulates_fp32);

// One of the three products of a linear layer.
struct LinearProduct {
  MatmulShape shape = {};
  GemmPass pass = GemmPass::kForward;
  bool accumulates_fp32 = false;
  bool operator==(const LinearProduct&) const = default;
};

// MatmulTime of one chip multiplied by its measured residual (terms/matmul_residual.h). A memo
// table: each product is computed once, because the layers of different plans share most of them.
// Not for use from several threads at once.
class MatmulTimes {
 public:
  // `chip` outlives it.
  MatmulTimes(const ChipSpec& chip, const DeviceRates& rates);

  [[nodiscard]] Seconds Of(const LinearProduct& product);
  // Returns a lower bound of the time of every product with this many FLOPs.
  [[nodiscard]] Seconds Least(Flops flops) const;
  [[nodiscard]] const DeviceRates& rates() const { return rates_; }

 private:
  struct Hash {
    [[nodiscard]] std::size_t operator()(const LinearProduct& product) const;
  };

  const ChipSpec& chip_;
  DeviceRates rates_;
  double least_seconds_per_flop_;
  absl::flat_hash_map<LinearProduct, Seconds, Hash> times_;  // looked up only, never walked
};

}  // namespace meshwright
