#include "server/tuner/chip_calibration/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "search_space/spec/chip.h"
#include "vendor_models/chip_text.h"
#include "vendor_models/collective_row.h"
#include "vendor_models/residual_table.h"

namespace meshwright {
namespace {

struct OperatorFigure {
  std::string_view name;
  std::string_view figure;  // that stands for the operator's others
};

constexpr OperatorFigure kOperators[] = {
    {"gemm", "gemm_compute_efficiency_ratio"},
    {"attention", "attention_efficiency_ratio"},
    {"memory-bound", "memory_bound_efficiency_ratio"},
    {"stream", "stream_efficiency_ratio"},
    {"host link", "host_link_bandwidth_bytes_per_second"},
    {"sustained gemm", "sustained_time_ratio"},
    {"overlap", "overlap_slowdown_ratio"},
};

constexpr CollectiveKind kCollectives[] = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                           CollectiveKind::kReduceScatter,
                                           CollectiveKind::kAllToAll};

// A file without a row of collectives has estimates by the bandwidth of its links.
constexpr char kLinkFigure[] = "scale_up_bandwidth_bytes_per_second";

// Adds a row that rests on a figure. A chip without that figure does not have the operator.
void AddRow(const ChipEntry& entry, OperatorCoverage row, std::string_view figure,
            std::vector<OperatorCoverage>& rows) {
  const ChipFigure* const found = FindFigure(entry, figure);
  if (found == nullptr) return;
  row.provenance = found->provenance;
  row.confidence = found->confidence;
  row.source = found->source;
  rows.push_back(std::move(row));
}

std::string DetailOf(const GemmResidualTable& table) {
  return fmt::format("{}{}{}", Word(table.precision), table.is_grouped ? " grouped" : "",
                     table.pass.has_value() ? fmt::format(" {}", ResidualPassWord(table)) : "");
}

// The tables keep logarithms of whole numbers.
double WholeOf(double logarithm) { return std::round(std::exp(logarithm)); }

// A product of m x k and k x n takes 2 m n k operations in each of its groups.
std::vector<double> FlopsOf(const GemmResidualTable& table) {
  std::vector<double> flops;
  flops.reserve(table.shapes.size());
  for (const GemmResidual& shape : table.shapes) {
    flops.push_back(2 * WholeOf(shape.log_count) * WholeOf(shape.log_m) * WholeOf(shape.log_n) *
                    WholeOf(shape.log_k));
  }
  std::ranges::sort(flops);
  return flops;
}

std::vector<double> BytesOf(const CollectiveFit& fit) {
  std::vector<double> bytes;
  bytes.reserve(fit.curve.size());
  for (const CollectivePoint& point : fit.curve) {
    bytes.push_back(static_cast<double>(point.bytes.count));
  }
  return bytes;
}

void AddTables(const ChipEntry& entry, std::vector<OperatorCoverage>& rows) {
  for (const GemmResidualTable& table : entry.spec.gemm_residuals) {
    AddRow(
        entry,
        {.name = "gemm", .detail = DetailOf(table), .size_unit = "flops", .sizes = FlopsOf(table)},
        ResidualTableName(table), rows);
  }
}

void AddCollectives(const ChipEntry& entry, std::vector<OperatorCoverage>& rows) {
  for (const CollectiveKind kind : kCollectives) {
    const std::string name(CollectiveWordOf(kind));
    bool has_row = false;
    for (const CollectiveFit& fit : entry.spec.collectives) {
      if (fit.kind != kind) continue;
      has_row = true;
      AddRow(entry,
             {.name = name,
              .detail = fmt::format("{} ranks", fit.ranks),
              .size_unit = fit.curve.empty() ? "" : "bytes",
              .sizes = BytesOf(fit)},
             CollectiveName(fit), rows);
    }
    if (has_row) continue;
    // The bandwidth may be measured; how this collective uses it is not.
    const ChipFigure* const link = FindFigure(entry, kLinkFigure);
    if (link == nullptr) continue;
    rows.push_back({.name = name, .source = fmt::format("by {} of the links", kLinkFigure)});
  }
}

}  // namespace

std::vector<OperatorCoverage> CoverageOf(const ChipEntry& entry) {
  std::vector<OperatorCoverage> rows;
  for (const OperatorFigure& row : kOperators) {
    AddRow(entry, {.name = std::string(row.name)}, row.figure, rows);
    if (row.name == "gemm") AddTables(entry, rows);
  }
  AddCollectives(entry, rows);
  return rows;
}

}  // namespace meshwright
