#pragma once

#include <string>
#include <vector>

#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_list.h"
#include "server/plugins/wire/calibration.h"
#include "server/plugins/wire/model_client.h"

namespace meshwright {

// A model that was started.
struct ShownModel {
  ModelManifest manifest = {};
  ModelInfo info = {};
  std::string isolation = {};
  std::vector<std::string> calibrated_chips = {};
};

// Return what `meshwright model` prints for programs, with a newline at the end.

std::string ListJson(const v1::ListCostModelsResponse& list);
std::string ShowJson(const ShownModel& shown);
std::string TestsJson(const std::vector<CalibrationTest>& tests);
std::string CalibrationJson(const std::string& path, const StoredCalibration& calibration);
std::string CheckJson(const ConformanceReport& report);

}  // namespace meshwright
