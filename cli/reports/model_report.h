#pragma once

#include <string>
#include <vector>

#include "server/plugins/conformance/conformance_report.h"
#include "server/plugins/conformance/report_json.h"
#include "server/plugins/model_list.h"
#include "server/plugins/wire/calibration.h"

namespace meshwright {

// The texts that `meshwright model` prints for people.

std::string ModelTable(const v1::ListCostModelsResponse& list);
std::string ModelReport(const ShownModel& shown);
std::string TestTable(const std::vector<CalibrationTest>& tests);
std::string ModelCalibrationReport(const std::string& path, const StoredCalibration& calibration);

// Lines have at most `columns` columns, but for what the model itself wrote.
std::string CheckReport(const ConformanceReport& report, int columns);

}  // namespace meshwright
