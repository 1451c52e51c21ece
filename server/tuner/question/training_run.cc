#include "server/tuner/question/training_run.h"

#include <fmt/format.h>

#include <cstddef>
#include <set>
#include <string_view>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

// Far above every run, so that no product of them overflows.
constexpr double kMaxTokens = 1e18;
constexpr double kMaxDays = 36'500;
constexpr double kMaxPrice = 1e9;

}  // namespace

std::vector<FieldViolation> Validate(const TrainingRun& run) {
  std::vector<FieldViolation> found;
  if (!(run.token_count >= 1 && run.token_count <= kMaxTokens)) {
    found.push_back({.field = "token_count",
                     .description = fmt::format("{:g}; must be at least 1 and at most {:g}",
                                                run.token_count, kMaxTokens)});
  }
  if (run.max_days.has_value() && !(*run.max_days > 0 && *run.max_days <= kMaxDays)) {
    found.push_back({.field = "max_days",
                     .description = fmt::format("{:g}; must be > 0 and at most {:g}", *run.max_days,
                                                kMaxDays)});
  }
  std::set<std::string_view> chips;
  for (std::size_t i = 0; i < run.device_hour_prices.size(); ++i) {
    const DeviceHourPrice& one = run.device_hour_prices[i];
    if (!(one.price >= 0 && one.price <= kMaxPrice)) {
      found.push_back({.field = fmt::format("device_hour_prices[{}].price", i),
                       .description = fmt::format("{:g}; must be at least 0 and at most {:g}",
                                                  one.price, kMaxPrice)});
    }
    if (!chips.insert(one.chip).second) {
      const std::string whose = one.chip.empty() ? "of all other chips" : "of " + one.chip;
      found.push_back({.field = fmt::format("device_hour_prices[{}]", i),
                       .description = fmt::format("{:g} is a second price {}; must be stated once",
                                                  one.price, whose)});
    }
  }
  return found;
}

}  // namespace meshwright
