#include "estimator/learning/calibration.h"

#include <cmath>

namespace meshwright {

double LeastTimeRatio(const Calibration& calibration) {
  const double plans = calibration.time.most_plan_log_factor;
  return calibration.time_ratio * std::exp(-plans);
}

}  // namespace meshwright
