#pragma once

#include <string>

#include "meshwright/v1/history.pb.h"

namespace meshwright {

// Show people what was measured and learnt. Pure functions.
std::string ReportText(const v1::CreateJobReportResponse& kept);
std::string ReportsText(const v1::BatchCreateJobReportsResponse& kept);
std::string ReportTable(const v1::ListJobReportsResponse& reports);
std::string MeasurementTable(const v1::ListMeasurementsResponse& measurements);
std::string MeasurementText(const v1::GetMeasurementResponse& measurement);
std::string CalibrationTable(const v1::ListCalibrationsResponse& calibrations);
std::string CalibrationText(const v1::GetCalibrationResponse& calibration);
std::string ImportText(const v1::ImportHistoryResponse& imported);
std::string BackupText(const v1::BackupStoreResponse& backup);

}  // namespace meshwright
