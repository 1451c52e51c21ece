#include "server/plugins/wire/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "search_space/base/clean_text.h"
#include "search_space/base/file_text.h"
#include "search_space/base/status.h"
#include "search_space/digest/base_encoding.h"
#include "search_space/digest/sha256.h"

namespace meshwright {
namespace {

using OrderedJson = nlohmann::ordered_json;
using std::filesystem::path;

constexpr std::size_t kNamedDigits = 12;    // digits of a checksum in a name
constexpr std::size_t kLongestShown = 100;  // longest text of a wrong value in a message
// The texts of a file are short beside the parameters, which take two digits per byte.
constexpr std::uintmax_t kMaxCalibrationFileBytes = 3 * kMaxParameterBytes;

// Accepts names of models and ids of chips, and nothing that leads to another folder.
bool IsFileName(std::string_view text) {
  return !text.empty() && text.front() != '.' &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") ==
             std::string_view::npos;
}

path PathOf(const std::string& folder, std::string_view model, std::string_view chip) {
  return path(folder) / "calibrations" / fmt::format("{}.{}.json", model, chip);
}

OrderedJson JsonOf(const StoredCalibration& calibration) {
  const FittedCalibration& fitted = calibration.fitted;
  OrderedJson json = {{"model", calibration.model},
                      {"model_version", calibration.model_version},
                      {"checksum", calibration.checksum},
                      {"chip", calibration.chip},
                      {"version", fitted.parameters.version}};
  if (fitted.held_out_error_ratio) json["held_out_error_ratio"] = *fitted.held_out_error_ratio;
  json["parameters"] = ToHex(fitted.parameters.bytes);
  return json;
}

absl::Status Unusable(const path& file, std::string_view why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", file.filename().string(), why));
}

std::string Text(const OrderedJson& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string()) return "";
  return CleanText(found->get<std::string>(), {.longest_bytes = kMaxCalibrationFileBytes});
}

std::string Shown(const OrderedJson& value) {
  return CleanText(value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace),
                   {.longest_bytes = kLongestShown});
}

absl::StatusOr<StoredCalibration> Parse(const path& file, const std::string& text) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Unusable(file, "is not a JSON object");
  StoredCalibration calibration = {.model = Text(json, "model"),
                                   .model_version = Text(json, "model_version"),
                                   .checksum = Text(json, "checksum"),
                                   .chip = Text(json, "chip")};
  CalibrationParameters& parameters = calibration.fitted.parameters;
  parameters.version = Text(json, "version");
  const auto error = json.find("held_out_error_ratio");
  if (error != json.end() && error->is_number()) {
    calibration.fitted.held_out_error_ratio = error->get<double>();
  }
  const auto bytes = FromHex(Text(json, "parameters"));
  if (!bytes.has_value() || bytes->empty()) {
    return Unusable(file, "parameters: must be hexadecimal digits");
  }
  if (bytes->size() > kMaxParameterBytes) {
    return Unusable(file, fmt::format("parameters: {} bytes; must be at most {}", bytes->size(),
                                      kMaxParameterBytes));
  }
  parameters.bytes = *bytes;
  return calibration;
}

}  // namespace

std::string CalibrationName(const CalibrationParameters& parameters) {
  if (parameters.bytes.empty()) return "";
  return parameters.version + "+" + Sha256Hex(parameters.bytes).substr(0, kNamedDigits);
}

absl::StatusOr<std::vector<TestMeasurement>> ReadMeasurements(
    std::string_view json, const std::vector<CalibrationTest>& tests) {
  OrderedJson values;
  try {
    values = OrderedJson::parse(json);
  } catch (const OrderedJson::exception& error) {
    return InvalidFields({{.field = "measurements", .description = error.what()}});
  }
  if (!values.is_object()) {
    return InvalidFields(
        {{.field = "measurements", .description = Shown(values) + "; must be a JSON object"}});
  }
  std::vector<FieldViolation> violations;
  const auto add = [&](const std::string& test, std::string description) {
    violations.push_back(
        {.field = "measurements." + CleanText(test, {}), .description = std::move(description)});
  };
  for (const auto& [name, value] : values.items()) {
    if (std::ranges::find(tests, name, &CalibrationTest::name) == tests.end()) {
      add(name, Shown(value) + "; is not a test of this model");
    }
  }
  std::vector<TestMeasurement> measurements;
  for (const CalibrationTest& test : tests) {
    const auto value = values.find(test.name);
    if (value == values.end()) {
      add(test.name, "missing; " + test.what);
    } else if (!value->is_number() || !std::isfinite(value->get<double>())) {
      add(test.name, fmt::format("{}; must be a finite number, {}", Shown(*value), test.unit));
    } else {
      measurements.push_back({.name = test.name, .value = value->get<double>()});
    }
  }
  if (!violations.empty()) return InvalidFields(violations);
  return measurements;
}

absl::StatusOr<ModelFile> FileOf(const std::string& folder, const StoredCalibration& calibration) {
  if (!IsFileName(calibration.model) || !IsFileName(calibration.chip)) {
    return absl::InvalidArgumentError("the model's name or the chip's id cannot be a file name");
  }
  return ModelFile{
      .path = PathOf(folder, calibration.model, calibration.chip),
      .text =
          JsonOf(calibration).dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n"};
}

std::vector<std::string> CalibratedChips(const std::string& folder, std::string_view model) {
  const std::string begin = std::string(model) + ".";
  std::vector<std::string> chips;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path(folder) / "calibrations", error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string stem = entry->path().stem().string();
    if (entry->path().extension() != ".json" || !stem.starts_with(begin)) continue;
    chips.push_back(stem.substr(begin.size()));
  }
  std::ranges::sort(chips);
  return chips;
}

absl::StatusOr<std::optional<StoredCalibration>> LoadCalibration(const std::string& folder,
                                                                 std::string_view model,
                                                                 std::string_view chip) {
  const std::optional<StoredCalibration> none;
  if (!IsFileName(model) || !IsFileName(chip)) return none;
  const path file = PathOf(folder, model, chip);
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return none;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (error || size > kMaxCalibrationFileBytes) {
    return Unusable(file, "cannot be read, or is too large");
  }
  std::ifstream in(file, std::ios::binary);
  const std::string text = RestOf(in);
  if (!in.is_open() || in.bad()) return Unusable(file, "cannot be read");
  ASSIGN_OR_RETURN(StoredCalibration calibration, Parse(file, text));
  if (calibration.model != model || calibration.chip != chip) {
    return Unusable(file, "is of another model or chip than its name says");
  }
  return std::optional(std::move(calibration));
}

}  // namespace meshwright
