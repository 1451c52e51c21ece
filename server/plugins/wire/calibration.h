#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// What a vendor's model wants measured of a chip.
struct CalibrationTest {
  std::string name = {};  // "gemm_bf16_4096x4096x4096"
  std::string what = {};  // for people
  std::string unit = {};  // seconds, bytes_per_second, flops_per_second
};
struct TestMeasurement {
  std::string name = {};  // of the test
  double value = 0;       // in its unit
};

// What a model makes of measurements and is given back with each question (OpenContext).
struct CalibrationParameters {
  std::string version = {};  // as the model calls it
  std::string bytes = {};    // opaque; empty: none, the model's own constants
};
inline constexpr std::size_t kMostParameterBytes = 1 << 20;

struct FittedCalibration {
  CalibrationParameters parameters = {};
  std::optional<double> held_out_error_ratio = {};
};

// A file of `calibrations/` in the folder of models.
struct StoredCalibration {
  std::string model = {};  // of its manifest
  std::string model_version = {};
  std::string checksum = {};  // SHA-256 of the program or library that it was fitted by
  std::string chip = {};
  FittedCalibration fitted = {};
};

// What every number says of the parameters that it was made with: the model's own version of them
// and a part of their SHA-256, as a model need not count versions. Empty for none.
std::string CalibrationName(const CalibrationParameters& parameters);

// The measurements of a file {"<test>": value, ...}. INVALID_ARGUMENT names all tests that are not
// known, not there, or whose value is not a finite number.
absl::StatusOr<std::vector<TestMeasurement>> ReadMeasurements(
    std::string_view json, const std::vector<CalibrationTest>& tests);

// `calibrations/<model>.<chip>.json`, to be written. INVALID_ARGUMENT: the names are no file's.
struct CalibrationFile {
  std::string path = {};
  std::string text = {};
};
absl::StatusOr<CalibrationFile> FileOf(const std::string& folder,
                                       const StoredCalibration& calibration);

// The chips that a model has such a file for, in their order.
std::vector<std::string> CalibratedChips(const std::string& folder, std::string_view model);

// Absent: there is none. INVALID_ARGUMENT: the file cannot be used, and why.
absl::StatusOr<std::optional<StoredCalibration>> LoadCalibration(const std::string& folder,
                                                                 std::string_view model,
                                                                 std::string_view chip);

}  // namespace meshwright
