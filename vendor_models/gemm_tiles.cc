#include "vendor_models/gemm_tiles.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "search_space/base/shown_value.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTileKeys[] = {"confidence", "provenance", "source", "tiles"};
constexpr double kLargestTile = 4096;

std::optional<GemmTile> ParseTile(const Json& row) {
  if (!row.is_array() || row.size() != 2) return std::nullopt;
  double sizes[2];
  for (std::size_t i = 0; i < 2; ++i) {
    if (!row[i].is_number_integer()) return std::nullopt;
    sizes[i] = row[i].get<double>();
    if (sizes[i] < 1 || sizes[i] > kLargestTile) return std::nullopt;
  }
  return GemmTile{.rows = sizes[0], .columns = sizes[1]};
}

}  // namespace

std::vector<GemmTile> ParseTiles(ObjectReader& reader) {
  const std::vector<GemmTile> usual(std::begin(kTensorCoreTiles), std::end(kTensorCoreTiles));
  reader.AllowOnly(kTileKeys);
  const Json* list = reader.Find("tiles");
  if (list == nullptr) return usual;
  if (!list->is_array() || list->empty()) {
    reader.Reject("tiles", ShownValue(*list) + "; must be a list of [rows, columns]");
    return usual;
  }
  std::vector<GemmTile> tiles;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::optional<GemmTile> tile = ParseTile((*list)[i]);
    const std::string place = fmt::format("tiles[{}]", i);
    if (!tile.has_value()) {
      reader.Reject(place, fmt::format("{}; must be [rows, columns], whole numbers from 1 to {}",
                                       ShownValue((*list)[i]), kLargestTile));
    } else if (!tiles.empty() && IntensityOf(*tile) > IntensityOf(tiles.front())) {
      reader.Reject(place, fmt::format("{}; the first must have the greatest rows x columns / "
                                       "(rows + columns)",
                                       ShownValue((*list)[i])));
    } else {
      tiles.push_back(*tile);
    }
  }
  return tiles.empty() ? usual : tiles;
}

std::string TilesText(std::span<const GemmTile> tiles) {
  std::string text;
  for (const GemmTile& tile : tiles) {
    text += fmt::format("{}{:.0f}x{:.0f}", text.empty() ? "" : " ", tile.rows, tile.columns);
  }
  return text;
}

}  // namespace meshwright
