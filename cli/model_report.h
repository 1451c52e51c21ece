#pragma once

#include <string>
#include <vector>

#include "server/plugins/calibration.h"
#include "server/plugins/conformance.h"
#include "server/plugins/model_list.h"
#include "server/plugins/report_json.h"

namespace meshwright {

// What `meshwright model` prints for people.

std::string ModelTable(const v1::ListCostModelsResponse& list);
std::string ModelReport(const ShownModel& shown);
std::string TestTable(const std::vector<CalibrationTest>& tests);
std::string ModelCalibrationReport(const std::string& path, const StoredCalibration& calibration);
std::string CheckReport(const ConformanceReport& report);

}  // namespace meshwright
