#include "estimator/terms/matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "estimator/terms/matmul_residual.h"
#include "search_space/base/units.h"

namespace meshwright {
namespace {

constexpr double kSplits[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr double kDefaultCores = 100;

// Extra time of a weight gradient that accumulates into fp32: 5-8 % over the same GEMM with 16-bit
// output (sustained training GEMMs, data op_efficiency/gemm_training_simumax.csv).
constexpr double kFp32AccumulationRatio = 1.06;

// Share of the vector units' peak that a product of unaligned rows reaches; such rows leave the
// matrix units idle (docs/cost_model/gemm.md).
constexpr double kUnalignedVectorShare = 0.85;

double TileTime(const MatmulShape& s, const GemmTile& tile, const ChipSpec& chip,
                FlopsPerSecond peak) {
  const GemmModel& g = chip.gemm;
  const double cores = chip.core_count > 0 ? chip.core_count : kDefaultCores;
  const double blocks =
      std::ceil(s.m / tile.rows) * std::ceil(s.n / tile.columns) * std::max(1.0, s.count);
  const double intensity = IntensityOf(tile) / IntensityOf(chip.gemm_tiles.front());
  const double eta = (1 + g.intensity_half) * intensity / (intensity + g.intensity_half);
  const double core_rate = peak.rate / cores * g.compute_efficiency * eta;
  double best = std::numeric_limits<double>::infinity();
  for (const double split : kSplits) {
    if (split > 1 && s.k / split < 128) break;
    const double waves = blocks * split / cores;
    const double effective =
        (1 - g.quantisation) * std::max(waves, 1.0) + g.quantisation * std::ceil(waves);
    double time = effective * 2 * tile.rows * tile.columns * (s.k / split + g.fill) / core_rate;
    if (split > 1) {
      time += g.split_k.count() + split * s.m * s.n * s.count * 4 / chip.memory_bandwidth.rate;
    }
    best = std::min(best, time);
    if (waves >= 4) break;  // more splits would only add to the reduction
  }
  return best;
}

}  // namespace

std::optional<FlopsPerSecond> NominalPeak(const ChipSpec& chip, Precision precision) {
  const auto found = chip.peak.find(precision);
  if (found == chip.peak.end()) return std::nullopt;
  return found->second;
}

Seconds MatmulTime(const MatmulShape& shape, const ChipSpec& chip, const DeviceRates& rates,
                   bool accumulates_fp32) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || shape.count <= 0) return Seconds(0);
  double compute = std::numeric_limits<double>::infinity();
  if (shape.is_aligned || rates.vector_peak.rate <= 0) {
    for (const GemmTile& tile : chip.gemm_tiles) {
      compute = std::min(compute, TileTime(shape, tile, chip, rates.peak));
    }
  } else {
    compute = 2 * shape.m * shape.n * shape.k * shape.count /
              (kUnalignedVectorShare * rates.vector_peak.rate);
  }
  compute *= rates.power_time_ratio;
  const double elements = shape.m * shape.k + shape.k * shape.n + shape.m * shape.n;
  const double memory = elements * shape.count * rates.element_bytes /
                        (chip.memory_bandwidth.rate * chip.gemm.memory_efficiency);
  const double p = chip.gemm.norm_exponent;
  const double high = std::max(compute, memory);
  const double low = std::min(compute, memory);
  const double norm = high * std::pow(1 + std::pow(low / high, p), 1 / p);
  const double ratio = rates.sustained_time_ratio * (accumulates_fp32 ? kFp32AccumulationRatio : 1);
  return Seconds(chip.gemm.fixed.count() + norm * ratio);
}

// The rounding to tiles, the filling of a tile and memory can only make a product slower than the
// largest tile runs.
MatmulTimes::MatmulTimes(const ChipSpec& chip, const DeviceRates& rates)
    : chip_(chip), rates_(rates) {
  const double rate = std::max(rates.peak.rate * chip.gemm.compute_efficiency,
                               rates.vector_peak.rate * kUnalignedVectorShare);
  least_seconds_per_flop_ = rates.power_time_ratio * rates.sustained_time_ratio *
                            LeastResidualRatio(chip.gemm_residuals, rates.precision) / rate;
}

Seconds MatmulTimes::Least(Flops flops) const {
  return Seconds(flops.count * least_seconds_per_flop_);
}

Seconds MatmulTimes::Of(const LinearProduct& product) {
  const auto found = times_.find(product);
  if (found != times_.end()) return found->second;
  const double residual =
      ResidualRatio(chip_.gemm_residuals, rates_.precision, product.pass, product.shape);
  const Seconds time =
      MatmulTime(product.shape, chip_, rates_, product.accumulates_fp32) * residual;
  return times_.emplace(product, time).first->second;
}

std::size_t MatmulTimes::Hash::operator()(const LinearProduct& product) const {
  const MatmulShape& shape = product.shape;
  std::size_t hash = static_cast<std::size_t>(product.pass) * 8;
  if (product.accumulates_fp32) hash ^= 1;
  if (!shape.is_aligned) hash ^= 2;
  if (shape.is_grouped) hash ^= 4;
  for (const double x : {shape.m, shape.n, shape.k, shape.count}) {
    // The low bits of a double that holds a round number are zeros: spread the high ones.
    hash = (hash ^ std::bit_cast<std::uint64_t>(x)) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace meshwright
