#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/measured.h"
#include "estimator/terms/collective.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_calibration.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// Files of microbenchmarks of a chip whose true figures are known.

inline std::string FileOf(const std::string& items) {
  return fmt::format(R"({{"format": "meshwright.microbench", "version": 1,
    "machine": {{"device": "cpu", "backend": "gloo", "device_name": "a board", "torch": "1.13",
                 "device_count": 2}},
    "items": {{{}}}}})",
                     items);
}

inline std::string Item(const std::string& name, const std::vector<std::string>& rows) {
  return fmt::format(R"("{}": {{"status": "measured", "reason": "", "seconds": 1, "rows": [{}]}})",
                     name, fmt::join(rows, ", "));
}

inline ChipEntry Base() {
  const auto catalogue = Catalogue::LoadBuiltIn();
  EXPECT_TRUE(catalogue.ok());
  return **catalogue->Find("nvidia-a100-sxm4-80gb");
}

// Returns a chip that differs from the base in every figure that can be measured.
inline ChipSpec Truth() {
  ChipSpec chip = Base().spec;
  chip.gemm_residuals.clear();
  chip.gemm.compute_efficiency = 0.5;
  chip.gemm.fixed = Seconds(2e-5);
  return chip;
}

inline std::string Gemms(const ChipSpec& chip) {
  std::vector<std::string> rows;
  for (const double m : {256.0, 1024.0, 2048.0, 8192.0}) {
    for (const double n : {512.0, 2048.0, 5120.0}) {
      for (const double k : {512.0, 4096.0, 8192.0}) {
        const MeasuredGemm gemm = {.shape = {.m = m, .n = n, .k = k}};
        rows.push_back(fmt::format(
            R"({{"precision": "bf16", "pass": "forward", "m": {}, "n": {}, "k": {}, "count": 1,)"
            R"( "accumulates_fp32": false, "time_seconds": {}}})",
            m, n, k, GemmTime(gemm, chip).count()));
      }
    }
  }
  return Item("gemm", rows);
}

inline std::string Streams(double bytes_per_second) {
  std::vector<std::string> rows;
  for (const double bytes : {1e6, 1e8, 1e9}) {
    rows.push_back(fmt::format(
        R"({{"operation": "copy", "bytes": {}, "working_set_bytes": {}, "time_seconds": {}}})",
        bytes, bytes, bytes / bytes_per_second));
  }
  return Item("memory", rows);
}

inline std::string Kernels() {
  std::vector<std::string> rows;
  for (int i = 0; i < 10; ++i) {
    const double bytes = 1e5 * std::pow(3, i);
    rows.push_back(fmt::format(R"({{"operation": "gelu", "pass": "forward", "element_count": 1,)"
                               R"( "bytes": {}, "time_seconds": {}}})",
                               std::round(bytes), 5e-6 + bytes / 1e12));
  }
  return Item("elementwise", rows);
}

inline std::string Collectives(const std::vector<std::string>& kinds = {"all_reduce", "all_gather",
                                                                        "reduce_scatter"}) {
  const CollectiveFit fabric = {.kind = CollectiveKind::kAllGather,
                                .ranks = 2,
                                .alpha = Seconds(3e-5),
                                .bandwidth = {5e10},
                                .half = {1000000}};
  std::vector<std::string> rows;
  for (const std::string& kind : kinds) {
    for (std::int64_t bytes = 4096; bytes < std::int64_t{1} << 30; bytes *= 4) {
      rows.push_back(
          fmt::format(R"({{"kind": "{}", "rank_count": 2, "bytes": {}, "time_seconds": {}}})", kind,
                      bytes, FitTime(fabric, {bytes}).count()));
    }
  }
  rows.push_back(R"({"kind": "point_to_point", "rank_count": 2, "bytes": 1000000,)"
                 R"( "time_seconds": 0.001})");
  return Item("collectives", rows);
}

inline std::string Sustained() {
  return Item("sustained_gemm",
              {R"({"precision": "bf16", "m": 4096, "n": 4096, "k": 4096,)"
               R"( "burst_time_seconds": 0.001, "time_seconds": 0.0013, "rank_count": 2,)"
               R"( "slowest_time_seconds": 0.0014})"});
}

inline std::string Device(bool has_fused_attention) {
  return Item("device", {fmt::format(R"({{"has_fused_attention": {}}})", has_fused_attention)});
}

// Returns `items` of a chip that PyTorch calls `device`.
inline ChipCalibration Calibrated(const std::string& items, std::string_view device = "cpu") {
  std::string file = FileOf(items);
  file.replace(file.find("cpu"), 3, device);
  const auto measurements = ParseMeasurements(file);
  EXPECT_TRUE(measurements.ok()) << measurements.status();
  auto calibration = CalibrateChip(Base(), *measurements, "board 7");
  EXPECT_TRUE(calibration.ok()) << calibration.status();
  return *std::move(calibration);
}

inline std::string AllItems() {
  return fmt::format(
      "{}", fmt::join(std::vector<std::string>{Device(false), Gemms(Truth()), Streams(1.7e12),
                                               Kernels(), Collectives(), Sustained()},
                      ", "));
}

inline const OperatorFit& OperatorOf(const ChipCalibration& calibration, std::string_view name) {
  return *std::ranges::find(calibration.operators, name, &OperatorFit::name);
}

}  // namespace meshwright
