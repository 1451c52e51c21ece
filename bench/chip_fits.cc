// Reports the held-out errors of the fits of estimator/fit on public measured tables:
// docs/chips/fits.md.
//
//   chip_fits FOLDER [gemm|few|collective|curves|attention|memory]
//
// FOLDER holds the tables gemm_<chip>_<precision>.csv, collectives_single_node.csv,
// attention_fwd_aiconfigurator.csv, attention_training_simumax.csv and elementwise_memory_bound.csv
// (their README gives sources and columns). `curves` prints what bench/chips/collective_curves.py
// puts into the sources of single collectives.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/fit/attention_fit.h"
#include "estimator/fit/collective_fit.h"
#include "estimator/fit/fit_error.h"
#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/measured.h"
#include "estimator/fit/traffic_fit.h"
#include "estimator/terms/kernel.h"
#include "estimator/terms/stream.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/catalogue.h"

namespace meshwright {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  std::string field;
  while (std::getline(stream, field, ',')) fields.push_back(field);
  return fields;
}

std::vector<Row> ReadTable(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = Split(line);
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = Split(line);
    Row row;
    for (std::size_t i = 0; i < std::min(names.size(), fields.size()); ++i) {
      row[names[i]] = fields[i];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

double Number(const Row& row, const std::string& name) { return std::stod(row.at(name)); }

std::string Shown(const FitError& error) {
  return error.point_count == 0
             ? "-"
             : fmt::format("{:.1f} / {:.1f}", 100 * error.median_ratio, 100 * error.p90_ratio);
}

struct GemmTable {
  const char* file;
  const char* chip;
  Precision precision;
};
constexpr GemmTable kGemmTables[] = {
    {"gemm_a100_sxm_bf16", "nvidia-a100-sxm4-80gb", Precision::kBf16},
    {"gemm_h100_sxm_bf16", "nvidia-h100-sxm5-80gb", Precision::kBf16},
    {"gemm_h200_sxm_bf16", "nvidia-h200-sxm5-141gb", Precision::kBf16},
    {"gemm_b200_sxm_bf16", "nvidia-b200-sxm-180gb", Precision::kBf16},
    {"gemm_b300_sxm_bf16", "nvidia-b300-sxm-288gb", Precision::kBf16},
    {"gemm_gb200_bf16", "nvidia-gb200-nvl72", Precision::kBf16},
    {"gemm_l40s_bf16", "nvidia-l40s", Precision::kBf16},
    {"gemm_rtx_pro_6000_server_bf16", "nvidia-rtx-pro-6000-blackwell-server", Precision::kBf16},
    {"gemm_b60_bf16", "intel-arc-pro-b60", Precision::kBf16},
    {"gemm_h100_sxm_fp8", "nvidia-h100-sxm5-80gb", Precision::kFp8},
    {"gemm_b200_sxm_fp8", "nvidia-b200-sxm-180gb", Precision::kFp8},
};

// The number of shapes for a fit of many; more shapes hardly change its constants but take long.
constexpr std::size_t kManyShapes = 500;
constexpr Bytes kLargeMessage = {256 << 10};

// Reads the shapes with sizes of at least 512, as training has them.
std::vector<MeasuredGemm> ReadGemms(const std::string& folder, const GemmTable& table) {
  std::vector<MeasuredGemm> points;
  for (const Row& row : ReadTable(fmt::format("{}/{}.csv", folder, table.file))) {
    const MatmulShape shape = {.m = Number(row, "m"), .n = Number(row, "n"), .k = Number(row, "k")};
    if (std::min({shape.m, shape.n, shape.k}) < 512) continue;
    points.push_back({.precision = table.precision,
                      .shape = shape,
                      .time = Seconds(Number(row, "latency_us") * 1e-6)});
  }
  return points;
}

void ReportGemm(const std::string& folder, const Catalogue& catalogue) {
  fmt::print("| table | shapes | form | with residual table |\n|---|---|---|---|\n");
  for (const GemmTable& table : kGemmTables) {
    const std::vector<MeasuredGemm> points = ReadGemms(folder, table);
    const ChipSpec& chip = (*catalogue.Find(table.chip))->spec;
    fmt::print("| {} | {} | {} | {} |\n", table.file, points.size(),
               Shown(GemmHeldOutError(points, chip, GemmFitParts::kConstants)),
               Shown(GemmHeldOutError(points, chip, GemmFitParts::kConstantsAndTable)));
    std::fflush(stdout);
  }
}

// Fits to some random shapes and tests against 30 % of the others. Returns the median of five
// draws.
FitError SomeShapes(const std::vector<MeasuredGemm>& points, const ChipSpec& chip,
                    std::size_t count) {
  std::vector<FitError> draws;
  for (unsigned draw = 0; draw < 5; ++draw) {
    std::vector<MeasuredGemm> shuffled = points;
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(draw));
    ChipSpec fitted = chip;
    fitted.gemm_residuals.clear();
    fitted.gemm = FitGemm(std::span(shuffled).first(count), chip);
    std::vector<double> errors;
    for (const MeasuredGemm& p : std::span(shuffled).last(shuffled.size() * 3 / 10)) {
      errors.push_back(std::abs(GemmTime(p, fitted) / p.time - 1));
    }
    draws.push_back(ErrorOf(std::move(errors)));
  }
  std::sort(draws.begin(), draws.end(),
            [](const FitError& a, const FitError& b) { return a.median_ratio < b.median_ratio; });
  return draws[2];
}

void ReportFew(const std::string& folder, const Catalogue& catalogue) {
  fmt::print("| table | 16 shapes | 32 | 64 | {} |\n|---|---|---|---|---|\n", kManyShapes);
  for (const GemmTable& table : kGemmTables) {
    const std::vector<MeasuredGemm> points = ReadGemms(folder, table);
    const ChipSpec& chip = (*catalogue.Find(table.chip))->spec;
    fmt::print("| {} |", table.file);
    for (const std::size_t count :
         {std::size_t{16}, std::size_t{32}, std::size_t{64}, kManyShapes}) {
      fmt::print(" {} |", Shown(SomeShapes(points, chip, std::min(count, points.size() * 7 / 10))));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

using CurvesByKind = std::map<std::string, std::vector<MeasuredCollective>>;

// Returns curves by ranks and chip, then by operation.
std::map<std::pair<int, std::string>, CurvesByKind> ReadCollectives(const std::string& folder) {
  const std::map<std::string, CollectiveKind> kinds = {
      {"all_reduce", CollectiveKind::kAllReduce},
      {"all_gather", CollectiveKind::kAllGather},
      {"reduce_scatter", CollectiveKind::kReduceScatter},
      {"alltoall", CollectiveKind::kAllToAll}};
  std::map<std::pair<int, std::string>, CurvesByKind> curves;
  for (const Row& row : ReadTable(folder + "/collectives_single_node.csv")) {
    const int ranks = std::stoi(row.at("n_ranks"));
    curves[{ranks, row.at("chip")}][row.at("op")].push_back(
        {.kind = kinds.at(row.at("op")),
         .ranks = ranks,
         .bytes = {std::stoll(row.at("bytes"))},
         .time = Seconds(Number(row, "latency_us") * 1e-6)});
  }
  return curves;
}

void ReportCurves(const std::string& folder) {
  for (const auto& [key, by_kind] : ReadCollectives(folder)) {
    for (const auto& [name, points] : by_kind) {
      fmt::print("{} {} {} {}\n", key.second, name, key.first,
                 Shown(ErrorOf(CurveHeldOutErrors(points))));
    }
  }
}

void ReportCollectives(const std::string& folder) {
  const std::map<std::pair<int, std::string>, CurvesByKind> curves = ReadCollectives(folder);
  fmt::print(
      "| ranks | chip | all-gather | all-reduce | all-to-all | reduce-scatter | all |\n"
      "|---|---|---|---|---|---|---|\n");
  std::map<int, std::vector<double>> pooled;
  std::map<int, std::vector<double>> pooled_large;
  for (const auto& [key, by_kind] : curves) {
    fmt::print("| {} | {} |", key.first, key.second);
    std::vector<double> all;
    for (const auto& [name, points] : by_kind) {
      std::vector<double> errors = CurveHeldOutErrors(points);
      all.insert(all.end(), errors.begin(), errors.end());
      fmt::print(" {} |", Shown(ErrorOf(std::move(errors))));
    }
    if (key.second != "l40s" && key.second != "rtx_pro_6000_server") {
      std::vector<double>& pool = pooled[key.first];
      pool.insert(pool.end(), all.begin(), all.end());
      for (const auto& [name, points] : by_kind) {
        std::ranges::copy(CurveHeldOutErrors(points, kLargeMessage),
                          std::back_inserter(pooled_large[key.first]));
      }
    }
    fmt::print(" {} |\n", Shown(ErrorOf(std::move(all))));
  }
  for (auto& [ranks, errors] : pooled) {
    fmt::print("| {} | all but PCIe hosts | | | | | {} |\n", ranks,
               Shown(ErrorOf(std::move(errors))));
    fmt::print("| {} | these, from 256 KiB on | | | | | {} |\n", ranks,
               Shown(ErrorOf(std::move(pooled_large[ranks]))));
  }
}

FitError AttentionError(const std::vector<MeasuredAttention>& points, const ChipSpec& chip) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const MeasuredAttention& p : points) {
    errors.push_back(std::abs(AttentionTime(p, chip) / p.time - 1));
  }
  return ErrorOf(std::move(errors));
}

void ReportAttention(const std::string& folder, const Catalogue& catalogue) {
  const std::map<std::string, std::string> chips = {{"a100_sxm", "nvidia-a100-sxm4-80gb"},
                                                    {"h100_sxm", "nvidia-h100-sxm5-80gb"},
                                                    {"h200_sxm", "nvidia-h200-sxm5-141gb"},
                                                    {"b200_sxm", "nvidia-b200-sxm-180gb"},
                                                    {"l40s", "nvidia-l40s"},
                                                    {"b60", "intel-arc-pro-b60"}};
  std::map<std::tuple<std::string, std::string>, std::vector<MeasuredAttention>> tables;
  for (const Row& row : ReadTable(folder + "/attention_fwd_aiconfigurator.csv")) {
    const double tokens = Number(row, "seq");
    const double size = Number(row, "head_dim");
    if (tokens < 1024 || (size != 64 && size != 128)) continue;
    tables[{row.at("chip"), row.at("framework")}].push_back(
        {.shape = {.batch = Number(row, "batch"),
                   .heads = Number(row, "heads"),
                   .head_dim = size,
                   .query_tokens = tokens,
                   .key_tokens = tokens},
         .time = Seconds(Number(row, "latency_us") * 1e-6)});
  }
  fmt::print(
      "| chip | kernels | shapes | rate | ramp, tokens | waves | small heads | held out | shipped "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& [key, points] : tables) {
    const auto chip = chips.find(std::get<0>(key));
    if (chip == chips.end()) continue;
    const ChipSpec& spec = (*catalogue.Find(chip->second))->spec;
    const AttentionModel model = FitAttention(points, spec);
    fmt::print("| {} | {} | {} | {:.4g} | {:.4g} | {:.4g} | {:.3g} | {} | {} |\n", std::get<0>(key),
               std::get<1>(key), points.size(), model.efficiency, model.sequence_half,
               model.wave_half, model.small_head_ratio, Shown(AttentionHeldOutError(points, spec)),
               Shown(AttentionError(points, spec)));
  }
}

// Reports on training kernels in a training framework. Nothing is fitted to them except B200's
// backward pass.
void ReportTrainingAttention(const std::string& folder, const Catalogue& catalogue) {
  const std::map<std::string, std::string> chips = {{"a100_pcie", "nvidia-a100-pcie-80gb"},
                                                    {"b200_sxm", "nvidia-b200-sxm-180gb"}};
  std::map<std::tuple<std::string, std::string>, std::vector<MeasuredAttention>> tables;
  for (const Row& row : ReadTable(folder + "/attention_training_simumax.csv")) {
    const double tokens = Number(row, "seq");
    tables[{row.at("chip"), row.at("pass")}].push_back(
        {.shape = {.batch = Number(row, "batch"),
                   .heads = Number(row, "q_heads"),
                   .head_dim = 0.5 * (Number(row, "qk_head_dim") + Number(row, "v_head_dim")),
                   .query_tokens = tokens,
                   .key_tokens = tokens},
         .is_backward = row.at("pass") == "bwd",
         .time = Seconds(Number(row, "latency_us") * 1e-6)});
  }
  fmt::print("\n| chip | pass | shapes | shipped |\n|---|---|---|---|\n");
  for (const auto& [key, points] : tables) {
    const ChipSpec& spec = (*catalogue.Find(chips.at(std::get<0>(key))))->spec;
    fmt::print("| {} | {} | {} | {} |\n", std::get<0>(key), std::get<1>(key), points.size(),
               Shown(AttentionError(points, spec)));
  }
}

// Reports on one inference kernel with 3 bytes per element, inside a graph. It says nothing about
// the share of bandwidth that training kernels reach.
void ReportMemory(const std::string& folder, const Catalogue& catalogue) {
  const std::map<std::string, std::string> chips = {
      {"h100_sxm", "nvidia-h100-sxm5-80gb"},
      {"h200_sxm", "nvidia-h200-sxm5-141gb"},
      {"b200_sxm", "nvidia-b200-sxm-180gb"},
      {"b300_sxm", "nvidia-b300-sxm-288gb"},
      {"gb200", "nvidia-gb200-nvl72"},
      {"gb300", "nvidia-gb300-nvl72"},
      {"l40s", "nvidia-l40s"},
      {"rtx_pro_6000_server", "nvidia-rtx-pro-6000-blackwell-server"}};
  std::map<std::string, std::vector<MeasuredTraffic>> tables;
  for (const Row& row : ReadTable(folder + "/elementwise_memory_bound.csv")) {
    tables[row.at("chip")].push_back({.bytes = {std::stoll(row.at("bytes_moved"))},
                                      .time = Seconds(Number(row, "latency_us") * 1e-6)});
  }
  fmt::print(
      "| chip | sizes | fixed, us | share | cache ratio | held out | shipped, kernels of a layer "
      "| shipped, large copies |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const auto& [name, points] : tables) {
    const ChipSpec& spec = (*catalogue.Find(chips.at(name)))->spec;
    const TrafficFit fit = FitTraffic(points, spec);
    std::vector<double> errors;
    std::vector<double> copy_errors;
    for (const MeasuredTraffic& p : points) {
      errors.push_back(
          std::abs(StreamTime(p.bytes, spec.memory_bound_efficiency, spec) / p.time - 1));
      if (p.bytes.count < spec.cache.count / 2) continue;
      copy_errors.push_back(
          std::abs(StreamTime(p.bytes, spec.stream_efficiency, spec) / p.time - 1));
    }
    fmt::print("| {} | {} | {:.3g} | {:.3g} | {:.3g} | {} | {} | {} |\n", name, points.size(),
               fit.fixed.count() * 1e6, fit.efficiency, fit.cache_bandwidth_ratio,
               Shown(TrafficHeldOutError(points, spec)), Shown(ErrorOf(std::move(errors))),
               Shown(ErrorOf(std::move(copy_errors))));
  }
}

int Run(const std::vector<std::string>& arguments) {
  const absl::StatusOr<Catalogue> catalogue = Catalogue::LoadBuiltIn();
  if (arguments.empty() || arguments.size() > 2 || !catalogue.ok()) {
    fmt::print(stderr, "usage: chip_fits FOLDER [gemm|few|collective|curves|attention|memory]\n");
    return 2;
  }
  const std::string& folder = arguments[0];
  const std::string part = arguments.size() > 1 ? arguments[1] : "";
  if (part.empty() || part == "gemm") ReportGemm(folder, *catalogue);
  if (part.empty() || part == "few") ReportFew(folder, *catalogue);
  if (part.empty() || part == "collective") ReportCollectives(folder);
  if (part == "curves") ReportCurves(folder);
  if (part.empty() || part == "memory") ReportMemory(folder, *catalogue);
  if (part.empty() || part == "attention") {
    ReportAttention(folder, *catalogue);
    ReportTrainingAttention(folder, *catalogue);
  }
  return 0;
}

}  // namespace
}  // namespace meshwright

int main(int argc, char** argv) {
  return meshwright::Run(std::vector<std::string>(argv + 1, argv + argc));
}
