#include "search_space/spec/limits.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace meshwright {

void LimitChecker::Range(std::string_view field, std::int64_t value, std::int64_t low,
                         std::int64_t high) {
  if (value < low) Add(field, fmt::format("{}; must be >= {}", value, low));
  if (value > high) Add(field, fmt::format("{}; must be <= {}", value, high));
}

void LimitChecker::AtLeast(std::string_view field, double value, double low) {
  if (std::isfinite(value) && value >= low) return;
  Add(field, fmt::format("{}; must be >= {}", value, low));
}

void LimitChecker::Positive(std::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return;
  Add(field, fmt::format("{}; must be > 0", value));
}

void LimitChecker::Missing(std::string_view field) { Add(field, "missing; required"); }

void LimitChecker::Add(std::string_view field, std::string description) {
  const std::string_view dot = prefix_.empty() || field.empty() ? "" : ".";
  violations_.push_back(
      {.field = fmt::format("{}{}{}", prefix_, dot, field), .description = std::move(description)});
}

}  // namespace meshwright
