#pragma once

#include <optional>
#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// Shows people why a plan is or is not the best, in lines of at most `columns`.
std::string ExplainReport(const v1::ExplainPlanResponse& explanation, int columns);

// Shows one line for each point of a sweep; with the price of a device-hour also the price of a
// million tokens.
std::string SweepReport(const v1::SweepResponse& sweep, std::optional<double> device_hour_price,
                        int columns);

}  // namespace meshwright
