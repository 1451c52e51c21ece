#include "estimator/terms/matmul_residual.h"

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

// The reach of neighbours in the natural logarithm of sizes, and the weight of the table's mean
// relative to a neighbour at distance 0. The held-out errors of the aiconfigurator tables are flat
// for reaches from 0.7 to 1.4 and for weights from 0.1 to 0.3.
constexpr double kShapeReach = 1;
constexpr double kMeanWeight = 0.1;

Precision Tabled(Precision precision) {
  return precision == Precision::kFp16 ? Precision::kBf16 : precision;
}

const GemmResidualTable* TableFor(const std::vector<GemmResidualTable>& tables, Precision precision,
                                  GemmPass pass, bool is_grouped) {
  precision = Tabled(precision);
  const GemmResidualTable* general = nullptr;
  for (const GemmResidualTable& table : tables) {
    if (table.precision != precision || table.is_grouped != is_grouped) continue;
    if (table.pass == pass) return &table;
    if (!table.pass.has_value()) general = &table;
  }
  return general;
}

// Returns the logarithm of a size, moved to the nearest measured one if it lies outside.
double Within(double size, const GemmResidualTable& table, double GemmResidual::*axis) {
  return std::clamp(std::log(size), table.low.*axis, table.high.*axis);
}

double Square(double x) { return x * x; }

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
  auto at = std::lower_bound(table->shapes.begin(), table->shapes.end(), m - kShapeReach,
                             [](const GemmResidual& a, double low) { return a.log_m < low; });
  for (; at != table->shapes.end() && at->log_m < m + kShapeReach; ++at) {
    const double beside = Square(n - at->log_n) + Square(k - at->log_k);
    if (beside >= Square(kShapeReach)) continue;
    const double distance =
        (Square(count - at->log_count) + Square(m - at->log_m) + beside) / Square(kShapeReach);
    const double weight = Square(std::max(0.0, 1 - distance));
    sum += weight * at->log_time_ratio;
    weights += weight;
  }
  return std::exp((sum + kMeanWeight * table->mean_log_time_ratio) / (weights + kMeanWeight));
}

double LeastResidualRatio(const std::vector<GemmResidualTable>& tables, Precision precision) {
  double least = 0;  // logarithm; the value of shapes that have no table
  for (const GemmResidualTable& table : tables) {
    if (table.precision != Tabled(precision)) continue;
    least = std::min(least, table.mean_log_time_ratio);
    for (const GemmResidual& shape : table.shapes) least = std::min(least, shape.log_time_ratio);
  }
  return std::exp(least);
}

}  // namespace meshwright
