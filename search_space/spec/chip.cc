#include "search_space/spec/chip.h"

#include <algorithm>
#include <tuple>

namespace meshwright {

void IndexShapes(GemmResidualTable& table) {
  std::vector<GemmResidual>& shapes = table.shapes;
  if (shapes.empty()) return;
  std::sort(shapes.begin(), shapes.end(), [](const GemmResidual& a, const GemmResidual& b) {
    return std::tie(a.log_m, a.log_n, a.log_k, a.log_count) <
           std::tie(b.log_m, b.log_n, b.log_k, b.log_count);
  });
  table.low = table.high = shapes.front();
  double sum = 0;
  for (const GemmResidual& shape : shapes) {
    for (double GemmResidual::*const axis : {&GemmResidual::log_count, &GemmResidual::log_m,
                                             &GemmResidual::log_n, &GemmResidual::log_k}) {
      table.low.*axis = std::min(table.low.*axis, shape.*axis);
      table.high.*axis = std::max(table.high.*axis, shape.*axis);
    }
    sum += shape.log_time_ratio;
  }
  table.mean_log_time_ratio = sum / static_cast<double>(shapes.size());
}

}  // namespace meshwright
