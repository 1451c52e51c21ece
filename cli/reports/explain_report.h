#pragma once

#include <optional>
#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Why a plan is best, or is not, for people.
std::string ExplainReport(const v1::ExplainPlanResponse& explanation);

// One line a point of a sweep; with the price of a device-hour, what a million tokens cost.
std::string SweepReport(const v1::SweepResponse& sweep, std::optional<double> device_hour_price);

}  // namespace meshwright
