#include "estimator/learning/calibration.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

const ChipLesson* LessonOf(const Calibration& calibration, std::string_view chip) {
  const auto found = std::ranges::find(calibration.chips, chip, &ChipLesson::chip);
  return found == calibration.chips.end() ? nullptr : &*found;
}

double LeastTimeRatio(const Calibration& calibration) {
  const double plans = calibration.time.most_plan_log_factor;
  return calibration.time_ratio * std::exp(-plans);
}

}  // namespace meshwright
