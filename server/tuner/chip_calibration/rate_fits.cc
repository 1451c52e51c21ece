#include "server/tuner/chip_calibration/rate_fits.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "estimator/fit/fit_error.h"
#include "search_space/base/median.h"
#include "search_space/base/units.h"

namespace meshwright {
namespace {

constexpr double kLeastShare = 0.2;  // least ratio of the shorter part to the longer one

// Fits a number. `say` returns a row's own value of it, `time` a row's time for a given value.
template <typename Row, typename Say, typename Time>
RateFit FitNumber(const std::vector<Row>& rows, Say say, Time time) {
  std::vector<double> said;
  said.reserve(rows.size());
  for (const Row& row : rows) said.push_back(say(row));
  if (said.empty()) return {};
  std::vector<double> errors;
  for (std::size_t i = 0; rows.size() > 1 && i < rows.size(); ++i) {
    std::vector<double> others = said;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const auto [modelled, measured] = time(rows[i], Median(std::move(others)));
    errors.push_back(std::abs(modelled / measured - 1));
  }
  return {.value = Median(std::move(said)),
          .row_count = static_cast<int>(rows.size()),
          .error = ErrorOf(std::move(errors))};
}

struct Times {
  Seconds modelled;
  Seconds measured;
};

}  // namespace

StreamFit FitStreams(const std::vector<MeasuredTraffic>& rows) {
  const auto rate = [](const MeasuredTraffic& row) {
    return static_cast<double>(row.bytes.count) / row.time.count();
  };
  StreamFit fit;
  fit.rate = FitNumber(rows, rate, [](const MeasuredTraffic& row, double value) {
    return Times{.modelled = row.bytes / BytesPerSecond{value}, .measured = row.time};
  });
  for (const MeasuredTraffic& row : rows) fit.fastest = std::max(fit.fastest, rate(row));
  return fit;
}

RateFit FitOverlap(const std::vector<MeasuredOverlap>& rows) {
  std::vector<MeasuredOverlap> telling;
  std::ranges::copy_if(rows, std::back_inserter(telling), [](const MeasuredOverlap& row) {
    const auto [shorter, longer] = std::minmax(row.gemm, row.collective);
    return shorter >= kLeastShare * longer;
  });
  return FitNumber(
      telling,
      [](const MeasuredOverlap& row) {
        const auto [shorter, longer] = std::minmax(row.gemm, row.collective);
        return std::max(0.0, (row.together - longer) / shorter);
      },
      [](const MeasuredOverlap& row, double slowdown) {
        const auto [shorter, longer] = std::minmax(row.gemm, row.collective);
        return Times{.modelled = longer + slowdown * shorter, .measured = row.together};
      });
}

}  // namespace meshwright
