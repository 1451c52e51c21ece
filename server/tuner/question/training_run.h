#pragma once

#include <optional>
#include <string>
#include <vector>

#include "search_space/base/status.h"

namespace meshwright {

// The price of an hour of a device, in a currency of the caller.
struct DeviceHourPrice {
  double price = 0;       // >= 0
  std::string chip = {};  // id; empty: every chip that has no price of its own
  bool operator==(const DeviceHourPrice&) const = default;
};

// A whole training run that a plan is wanted for.
struct TrainingRun {
  double token_count = 0;
  std::optional<double> max_days = {};  // the run should end within
  std::vector<DeviceHourPrice> device_hour_prices = {};
  bool operator==(const TrainingRun&) const = default;
};

// The time, devices and money that a training run takes with a plan: a step's time, its bounds and
// its number of devices, times the number of steps. Restarts, checkpoints and evaluation come on
// top.
struct RunCost {
  double step_count = 0;
  double days = 0;
  double low_days = 0;  // bounds of the central 80 %
  double high_days = 0;
  double device_hours = 0;
  // All devices at their power limit all the time; absent if the limit is not known.
  std::optional<double> max_device_energy_kilowatt_hours = {};
  std::optional<double> price = {};             // absent if the run states none for the chip
  std::optional<bool> is_within_max_days = {};  // by `days`; absent if the run has no limit
  bool operator==(const RunCost&) const = default;
};

// Returns everything that is wrong with a run, with paths relative to it. Chips are not looked up.
std::vector<FieldViolation> Validate(const TrainingRun& run);

}  // namespace meshwright
