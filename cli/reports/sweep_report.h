#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "meshwright/v1/service.pb.h"

namespace meshwright {

// The price of an hour of a device, by the chip's id; "" is the price of all other chips.
using DeviceHourPrices = std::map<std::string, double, std::less<>>;

// Returns the price of a chip; nullopt if there is none.
std::optional<double> PriceOf(const DeviceHourPrices& prices, const std::string& chip);

// Shows one line for each point of a sweep, with what the run takes if the question states one, and
// how to launch the recommended point, or the plan of each cluster if each has one point. With
// prices and without a run, a line has the price of a million tokens.
std::string SweepReport(const v1::SweepResponse& sweep, const DeviceHourPrices& prices,
                        int columns);

}  // namespace meshwright
