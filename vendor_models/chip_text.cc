#include "vendor_models/chip_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "search_space/spec/chip.h"
#include "vendor_models/collective_row.h"
#include "vendor_models/figure_table.h"
#include "vendor_models/residual_table.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTilesName = "gemm_tiles";

std::string Quoted(std::string_view text) { return Json(text).dump(); }

bool IsDefault(const ChipFigure& figure) { return figure.source == kClassDefault; }

std::string OriginText(const ChipFigure& figure) {
  return fmt::format(R"("source": {}, "provenance": "{}", "confidence": "{}")",
                     Quoted(figure.source), Word(figure.provenance), Word(figure.confidence));
}

// Returns the source of a list's row; a list and the figures use the same name for it.
const ChipFigure& OriginOf(const ChipEntry& entry, std::string_view name) {
  const ChipFigure* const found = FindFigure(entry, name);
  if (found == nullptr) std::abort();  // a list without its figure
  return *found;
}

bool IsNumber(std::string_view name) {
  return std::any_of(NumberFigures().begin(), NumberFigures().end(),
                     [name](const NumberFigure& row) { return row.key == name; });
}

bool IsWord(std::string_view name) {
  return std::any_of(WordFigures().begin(), WordFigures().end(),
                     [name](const WordFigure& row) { return row.key == name; });
}

// Returns `rows` between brackets, with one row per line.
std::string Lines(const std::vector<std::string>& rows, std::string_view open,
                  std::string_view close) {
  if (rows.empty()) return fmt::format("{}{}", open, close);
  return fmt::format("{}\n    {}\n  {}", open, fmt::join(rows, ",\n    "), close);
}

std::string FiguresText(const ChipEntry& entry) {
  std::vector<std::string> rows;
  for (const ChipFigure& figure : entry.figures) {
    if (IsDefault(figure) || !(IsNumber(figure.name) || IsWord(figure.name))) continue;
    const std::string value = IsWord(figure.name) ? Quoted(figure.value) : figure.value;
    rows.push_back(
        fmt::format(R"("{}": {{"value": {}, {}}})", figure.name, value, OriginText(figure)));
  }
  return Lines(rows, "{", "}");
}

std::string ReportedNamesText(const ChipEntry& entry) {
  std::vector<std::string> rows;
  rows.reserve(entry.reported_names.size());
  for (const ReportedName& name : entry.reported_names) {
    rows.push_back(
        fmt::format(R"({{"name": {}, "source": {}}})", Quoted(name.name), Quoted(name.source)));
  }
  return Lines(rows, "[", "]");
}

std::string CollectivesText(const ChipEntry& entry) {
  std::vector<std::string> rows;
  for (const CollectiveFit& fit : entry.spec.collectives) {
    std::string curve;
    for (const CollectivePoint& point : fit.curve) {
      curve += fmt::format("{}[{}, {:.6g}]", curve.empty() ? "" : ", ", point.bytes.count,
                           point.time.count());
    }
    if (!curve.empty()) curve = fmt::format(R"("curve": [{}], )", curve);
    rows.push_back(fmt::format(R"({{"kind": "{}", "rank_count": {}, "alpha_seconds": {}, )"
                               R"("bandwidth_bytes_per_second": {}, "half_bytes": {}, {}{}}})",
                               CollectiveWordOf(fit.kind), fit.ranks, fit.alpha.count(),
                               fit.bandwidth.rate, fit.half.count, curve,
                               OriginText(OriginOf(entry, CollectiveName(fit)))));
  }
  return Lines(rows, "[", "]");
}

std::string ResidualsText(const ChipEntry& entry) {
  std::vector<std::string> rows;
  for (const GemmResidualTable& table : entry.spec.gemm_residuals) {
    std::string shapes;
    for (const GemmResidual& r : table.shapes) {
      shapes += fmt::format("{}[{:.0f}, {:.0f}, {:.0f}, {:.0f}, {:.4g}]",
                            shapes.empty() ? "" : ", ", std::exp(r.log_count), std::exp(r.log_m),
                            std::exp(r.log_n), std::exp(r.log_k), std::exp(r.log_time_ratio));
    }
    rows.push_back(fmt::format(R"({{"precision": "{}", "pass": "{}", "is_grouped": {}, )"
                               R"("shapes": [{}], {}}})",
                               Word(table.precision), ResidualPassWord(table), table.is_grouped,
                               shapes, OriginText(OriginOf(entry, ResidualTableName(table)))));
  }
  return Lines(rows, "[", "]");
}

std::string TilesList(const ChipEntry& entry) {
  std::string text;
  for (const GemmTile& tile : entry.spec.gemm_tiles) {
    text += fmt::format("{}[{:.0f}, {:.0f}]", text.empty() ? "" : ", ", tile.rows, tile.columns);
  }
  return fmt::format(R"({{"tiles": [{}], {}}})", text, OriginText(OriginOf(entry, kTilesName)));
}

}  // namespace

std::string ChipFileText(const ChipEntry& entry) {
  const ChipSpec& spec = entry.spec;
  std::string text = fmt::format("{{\n  \"id\": {},\n  \"vendor\": {},\n  \"name\": {},\n",
                                 Quoted(spec.id), Quoted(spec.vendor), Quoted(spec.name));
  text += fmt::format("  \"aliases\": {},\n", Json(spec.aliases).dump());
  if (!entry.reported_names.empty()) {
    text += fmt::format("  \"reported_names\": {},\n", ReportedNamesText(entry));
  }
  text += fmt::format("  \"confidence\": \"{}\",\n  \"notes\": {},\n", Word(spec.confidence),
                      Quoted(entry.notes));
  text += fmt::format("  \"figures\": {},\n", FiguresText(entry));
  if (!IsDefault(OriginOf(entry, kTilesName))) {
    text += fmt::format("  \"gemm_tiles\": {},\n", TilesList(entry));
  }
  if (!spec.gemm_residuals.empty()) {
    text += fmt::format("  \"gemm_residuals\": {},\n", ResidualsText(entry));
  }
  return text + fmt::format("  \"collectives\": {}\n}}\n", CollectivesText(entry));
}

const ChipFigure* FindFigure(const ChipEntry& entry, std::string_view name) {
  const auto found = std::find_if(entry.figures.begin(), entry.figures.end(),
                                  [name](const ChipFigure& f) { return f.name == name; });
  return found == entry.figures.end() ? nullptr : &*found;
}

bool SetFigure(ChipEntry& entry, const ChipFigure& figure) {
  const auto row = std::find_if(NumberFigures().begin(), NumberFigures().end(),
                                [&figure](const NumberFigure& r) { return r.key == figure.name; });
  if (row == NumberFigures().end()) return false;
  row->set(entry.spec, std::strtod(figure.value.c_str(), nullptr));
  const auto old = std::find_if(entry.figures.begin(), entry.figures.end(),
                                [&figure](const ChipFigure& f) { return f.name == figure.name; });
  if (old == entry.figures.end()) {
    entry.figures.push_back(figure);
  } else {
    *old = figure;
  }
  return true;
}

}  // namespace meshwright
