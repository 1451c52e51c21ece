#pragma once

#include <string>
#include <vector>

#include "server/plugins/calibration.h"
#include "server/plugins/conformance.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// What `meshwright model` prints for programs, with a newline at the end.

std::string ListJson(const std::vector<ModelManifest>& manifests);
std::string ShowJson(const ModelManifest& manifest, const ModelInfo& info,
                     const std::string& isolation);
std::string TestsJson(const std::vector<CalibrationTest>& tests);
std::string CalibrationJson(const std::string& path, const StoredCalibration& calibration);
std::string CheckJson(const ConformanceReport& report);

}  // namespace meshwright
