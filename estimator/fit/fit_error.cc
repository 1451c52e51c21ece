#include "estimator/fit/fit_error.h"

#include <algorithm>

namespace meshwright {

FitError ErrorOf(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&errors](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  return {.median_ratio = at(0.5),
          .p90_ratio = at(0.9),
          .point_count = static_cast<int>(errors.size())};
}

}  // namespace meshwright
