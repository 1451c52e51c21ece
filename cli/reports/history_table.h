#pragma once

#include <string>

#include "meshwright/v1/history.pb.h"

namespace meshwright {

// Show people what was measured and learnt, in lines of at most `columns`. Pure functions.
std::string ReportText(const v1::CreateJobReportResponse& kept, int columns);
std::string ReportsText(const v1::BatchCreateJobReportsResponse& kept, int columns);
std::string ReportTable(const v1::ListJobReportsResponse& reports, int columns);
std::string MeasurementTable(const v1::ListMeasurementsResponse& measurements, int columns);
std::string MeasurementText(const v1::GetMeasurementResponse& measurement, int columns);
std::string RetractionText(const v1::RetractMeasurementResponse& retracted, int columns);
std::string CalibrationTable(const v1::ListCalibrationsResponse& calibrations, int columns);
std::string CalibrationText(const v1::GetCalibrationResponse& calibration, int columns);
std::string AuditTable(const v1::ListAuditEventsResponse& audit, int columns);
std::string ImportText(const v1::ImportHistoryResponse& imported);
std::string BackupText(const v1::BackupStoreResponse& backup);

}  // namespace meshwright
