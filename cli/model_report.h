#pragma once

#include <string>
#include <vector>

#include "server/plugins/calibration.h"
#include "server/plugins/conformance.h"
#include "server/plugins/manifest.h"

namespace meshwright {

// What `meshwright model` prints for people.

std::string ModelTable(const std::vector<ModelManifest>& manifests);
std::string ModelReport(const ModelManifest& manifest, const ModelInfo& info,
                        const std::string& isolation);
std::string TestTable(const std::vector<CalibrationTest>& tests);
std::string ModelCalibrationReport(const std::string& path, const StoredCalibration& calibration);
std::string CheckReport(const ConformanceReport& report);

}  // namespace meshwright
