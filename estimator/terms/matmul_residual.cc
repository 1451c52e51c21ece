#include "estimator/terms/matmul_residual.h"

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

// Neighbours reach this far in the natural logarithm of sizes, and the mean of the table counts as
// this much of a neighbour at distance 0: held-out errors of the aiconfigurator tables are flat
// from 0.7 to 1.4 and from 0.1 to 0.3.
constexpr double kReach = 1;
constexpr double kMeanWeight = 0.1;

const GemmResidualTable* TableFor(const std::vector<GemmResidualTable>& tables, Precision precision,
                                  GemmPass pass, bool is_grouped) {
  if (precision == Precision::kFp16) precision = Precision::kBf16;
  const GemmResidualTable* general = nullptr;
  for (const GemmResidualTable& table : tables) {
    if (table.precision != precision || table.is_grouped != is_grouped) continue;
    if (table.pass == pass) return &table;
    if (!table.pass.has_value()) general = &table;
  }
  return general;
}

// The logarithm of a size, moved to the nearest measured one where it lies outside.
double Within(double size, const GemmResidualTable& table, double GemmResidual::*axis) {
  const auto [low, high] = std::minmax_element(
      table.shapes.begin(), table.shapes.end(),
      [axis](const GemmResidual& a, const GemmResidual& b) { return a.*axis < b.*axis; });
  return std::clamp(std::log(size), *low.*axis, *high.*axis);
}

}  // namespace

double ResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision,
                     GemmPass pass, const MatmulShape& shape) {
  const bool is_single = !shape.is_grouped && shape.count == 1;
  if (!shape.is_aligned || (!shape.is_grouped && !is_single)) return 1;
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.count <= 0) return 1;
  const GemmResidualTable* table = TableFor(tables, precision, pass, shape.is_grouped);
  if (table == nullptr) return 1;
  const double count = Within(shape.count, *table, &GemmResidual::log_count);
  const double m = Within(shape.m, *table, &GemmResidual::log_m);
  const double n = Within(shape.n, *table, &GemmResidual::log_n);
  const double k = Within(shape.k, *table, &GemmResidual::log_k);
  double sum = 0;
  double weights = 0;
  double mean = 0;
  for (const GemmResidual& at : table->shapes) {
    const double distance =
        ((count - at.log_count) * (count - at.log_count) + (m - at.log_m) * (m - at.log_m) +
         (n - at.log_n) * (n - at.log_n) + (k - at.log_k) * (k - at.log_k)) /
        (kReach * kReach);
    const double nearness = std::max(0.0, 1 - distance);
    sum += nearness * nearness * at.log_time_ratio;
    weights += nearness * nearness;
    mean += at.log_time_ratio;
  }
  mean /= static_cast<double>(table->shapes.size());
  return std::exp((sum + kMeanWeight * mean) / (weights + kMeanWeight));
}

}  // namespace meshwright
