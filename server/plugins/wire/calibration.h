#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// A measurement that a vendor's model wants of a chip.
struct CalibrationTest {
  std::string name = {};  // such as "gemm_bf16_4096x4096x4096"
  std::string what = {};  // for people
  std::string unit = {};  // seconds, bytes_per_second or flops_per_second
};
struct TestMeasurement {
  std::string name = {};  // name of the test
  double value = 0;       // in the unit of the test
};

// Parameters that a model fits to measurements and gets back with each question (OpenContext).
struct CalibrationParameters {
  std::string version = {};  // the model's own name for it
  std::string bytes = {};    // opaque; empty: none, so that the model uses its own constants
};
inline constexpr std::size_t kMaxParameterBytes = 1 << 20;

struct FittedCalibration {
  CalibrationParameters parameters = {};
  std::optional<double> held_out_error_ratio = {};
};

// A file of `calibrations/` in the folder of models.
struct StoredCalibration {
  std::string model = {};  // as in its manifest
  std::string model_version = {};
  std::string checksum = {};  // SHA-256 of the program or library that fitted it
  std::string chip = {};
  FittedCalibration fitted = {};
};

// Returns the name under which figures made with these parameters are shown: the model's own
// version of them and a part of their SHA-256, since a model need not count versions. Empty for
// none.
std::string CalibrationName(const CalibrationParameters& parameters);

// Reads the measurements of a file {"<test>": value, ...}. INVALID_ARGUMENT names all tests that
// are unknown, missing, or without a finite number.
absl::StatusOr<std::vector<TestMeasurement>> ReadMeasurements(
    std::string_view json, const std::vector<CalibrationTest>& tests);

// A file of the folder of models, to be written.
struct ModelFile {
  std::string path = {};
  std::string text = {};
};

// Returns the file `calibrations/<model>.<chip>.json`. INVALID_ARGUMENT if the names cannot be part
// of a file's name.
absl::StatusOr<ModelFile> FileOf(const std::string& folder, const StoredCalibration& calibration);

// Returns the chips for which a model has such a file, in their order.
std::vector<std::string> CalibratedChips(const std::string& folder, std::string_view model);

// Returns nullopt if there is none. INVALID_ARGUMENT says why the file cannot be used.
absl::StatusOr<std::optional<StoredCalibration>> LoadCalibration(const std::string& folder,
                                                                 std::string_view model,
                                                                 std::string_view chip);

}  // namespace meshwright
