// Makes the residual table of a chip file from measured GEMM times: docs/cost_model/gemm.md.
//
//   gemm_residuals CHIP PRECISION [sustained] [fp32] < shapes.csv
//
// CHIP is an id of the catalogue. The input has one GEMM per line, `count,m,n,k,seconds`.
// `sustained` means that it was measured in training, not in a short burst; `fp32` means that it
// adds to an fp32 output. Prints `[count, m, n, k, time_ratio]` rows, one for each octave of sizes
// that holds measurements, and on stderr the errors of held-out sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "estimator/fit/gemm_fit.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/matmul_residual.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/catalogue.h"
#include "vendor_models/chip_file.h"

namespace meshwright {
namespace {

struct Options {
  bool sustained = false;
  bool accumulates_fp32 = false;
};

double Modelled(const MatmulShape& shape, const ChipSpec& chip, Precision precision,
                const Options& options) {
  DeviceRates rates;
  rates.peak = NominalPeak(chip, precision).value_or(FlopsPerSecond{1});
  rates.element_bytes = precision == Precision::kFp8 ? 1 : 2;
  if (options.sustained) rates.sustained_time_ratio = chip.sustained_time_ratio;
  return MatmulTime(shape, chip, rates, options.accumulates_fp32).count();
}

std::vector<ShapeRatio> ReadShapes(const ChipSpec& chip, Precision precision,
                                   const Options& options) {
  std::vector<ShapeRatio> all;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream fields(line);
    ShapeRatio one;
    double seconds = 0;
    MatmulShape& s = one.shape;
    if (!(fields >> s.count >> s.m >> s.n >> s.k >> seconds)) continue;  // the header
    s.is_grouped = s.count > 1;
    one.log_ratio = std::log(seconds / Modelled(s, chip, precision, options));
    all.push_back(one);
  }
  return all;
}

std::string Quantiles(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const auto at = [&errors](double share) {
    return 100 * errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  return fmt::format("{:.1f} / {:.1f} %", at(0.5), at(0.9));
}

// Reports the errors at (n, k) pairs that were held out from the table.
void ReportHeldOut(const std::vector<ShapeRatio>& all, Precision precision) {
  std::vector<double> form;
  std::vector<double> table;
  for (int round = 0; round < 5; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::map<std::pair<double, double>, bool> is_held;
    for (const ShapeRatio& one : all) is_held[{one.shape.n, one.shape.k}] = false;
    for (auto& [pair, held] : is_held) held = random() % 10 < 3;
    std::vector<ShapeRatio> seen;
    for (const ShapeRatio& one : all) {
      if (!is_held[{one.shape.n, one.shape.k}]) seen.push_back(one);
    }
    if (seen.empty()) continue;
    std::vector<GemmResidualTable> tables = {{.precision = precision,
                                              .is_grouped = all.front().shape.is_grouped,
                                              .shapes = OctaveMeans(seen)}};
    IndexShapes(tables.front());
    for (const ShapeRatio& one : all) {
      if (!is_held[{one.shape.n, one.shape.k}]) continue;
      const double ratio = ResidualRatio(tables, precision, GemmPass::kForward, one.shape);
      form.push_back(std::abs(std::exp(-one.log_ratio) - 1));
      table.push_back(std::abs(ratio * std::exp(-one.log_ratio) - 1));
    }
  }
  if (form.empty()) return;
  std::cerr << fmt::format("{} shapes; held out, median / p90: form {}, with table {}\n",
                           all.size(), Quantiles(form), Quantiles(table));
}

int Run(const std::vector<std::string>& arguments) {
  const absl::StatusOr<Catalogue> catalogue = Catalogue::LoadBuiltIn();
  const auto precision = arguments.size() < 2 ? std::nullopt : ParseChoice<Precision>(arguments[1]);
  if (!catalogue.ok() || !precision.has_value()) {
    std::cerr << "usage: gemm_residuals CHIP PRECISION [sustained] [fp32]\n";
    return 2;
  }
  const absl::StatusOr<const ChipEntry*> chip = catalogue->Find(arguments[0]);
  if (!chip.ok()) {
    std::cerr << chip.status().message() << "\n";
    return 2;
  }
  const std::set<std::string> words(arguments.begin() + 2, arguments.end());
  const Options options = {.sustained = words.contains("sustained"),
                           .accumulates_fp32 = words.contains("fp32")};
  const std::vector<ShapeRatio> all = ReadShapes((*chip)->spec, *precision, options);
  if (all.empty()) {
    std::cerr << "no line of count,m,n,k,seconds on stdin\n";
    return 2;
  }
  ReportHeldOut(all, *precision);
  std::string separator;
  for (const GemmResidual& r : OctaveMeans(all)) {
    std::cout << fmt::format("{}[{:.0f}, {:.0f}, {:.0f}, {:.0f}, {:.3f}]", separator,
                             std::exp(r.log_count), std::exp(r.log_m), std::exp(r.log_n),
                             std::exp(r.log_k), std::exp(r.log_time_ratio));
    separator = ",\n";
  }
  std::cout << "\n";
  return 0;
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  return meshwright::Run(std::vector<std::string>(argv + 1, argv + argc));
}
