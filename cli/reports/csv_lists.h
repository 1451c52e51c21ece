#pragma once

#include <string>

#include "cli/reports/sweep_report.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Lists as CSV for spreadsheets: a row of titles with the names and units of the JSON, then a row
// for each plan, point, study or measurement. Pure functions.

// The baseline has rank 0.
std::string PlansCsv(const v1::TuneResult& result);
std::string PlansCsv(const v1::ListPlansResponse& plans);
// With the prices of device-hours also the price of a million tokens. The plan is the one to
// launch, if the answer says so. A point at which nothing fits has no figures.
std::string SweepCsv(const v1::SweepResponse& sweep, const DeviceHourPrices& prices);
std::string StudiesCsv(const v1::ListStudiesResponse& studies);
std::string MeasurementsCsv(const v1::ListMeasurementsResponse& measurements);

}  // namespace meshwright
