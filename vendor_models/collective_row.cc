#include "vendor_models/collective_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "search_space/base/shown_value.h"
#include "search_space/base/units.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kCollectiveKeys[] = {"alpha_seconds", "bandwidth_bytes_per_second",
                                                "confidence",    "curve",
                                                "half_bytes",    "kind",
                                                "provenance",    "rank_count",
                                                "source"};

struct CollectiveWord {
  CollectiveKind kind;
  std::string_view word;
};
constexpr CollectiveWord kCollectiveWords[] = {
    {CollectiveKind::kAllReduce, "all_reduce"},
    {CollectiveKind::kAllGather, "all_gather"},
    {CollectiveKind::kReduceScatter, "reduce_scatter"},
    {CollectiveKind::kAllToAll, "all_to_all"},
};

constexpr NumberLimits kMessageBytes = {.low = 1, .high = 1e13};
constexpr NumberLimits kMessageSeconds = {.low = 1e-8, .high = 1e4};

std::optional<CollectivePoint> ParsePoint(const Json& row) {
  if (!row.is_array() || row.size() != 2 || !row[0].is_number() || !row[1].is_number()) {
    return std::nullopt;
  }
  const auto bytes = row[0].get<double>();
  const auto seconds = row[1].get<double>();
  if (bytes < kMessageBytes.low || bytes > kMessageBytes.high) return std::nullopt;
  if (seconds < kMessageSeconds.low || seconds > kMessageSeconds.high) return std::nullopt;
  return CollectivePoint{.bytes = RoundedBytes(bytes), .time = Seconds(seconds)};
}

void ParseCurve(ObjectReader& reader, CollectiveFit& fit) {
  const Json& curve = *reader.Find("curve");
  if (!curve.is_array()) {
    reader.Reject("curve", ShownValue(curve) + "; must be a list of [bytes, seconds]");
    return;
  }
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const std::optional<CollectivePoint> point = ParsePoint(curve[i]);
    if (!point.has_value() ||
        (!fit.curve.empty() && point->bytes.count <= fit.curve.back().bytes.count)) {
      reader.Reject(fmt::format("curve[{}]", i),
                    fmt::format("{}; must be [bytes, seconds], {:g} to {:g} bytes, more than in "
                                "the row before, in {:g} to {:g} seconds",
                                ShownValue(curve[i]), kMessageBytes.low, kMessageBytes.high,
                                kMessageSeconds.low, kMessageSeconds.high));
      continue;
    }
    fit.curve.push_back(*point);
  }
}

}  // namespace

std::string_view CollectiveWordOf(CollectiveKind kind) {
  for (const CollectiveWord& row : kCollectiveWords) {
    if (row.kind == kind) return row.word;
  }
  std::abort();  // kRing is computed from messages between neighbours and has no rows
}

CollectiveFit ParseCollective(ObjectReader& reader) {
  reader.AllowOnly(kCollectiveKeys);
  CollectiveFit fit;
  const std::string word = reader.Text("kind");
  const auto* const kind =
      std::find_if(std::begin(kCollectiveWords), std::end(kCollectiveWords),
                   [&word](const CollectiveWord& w) { return w.word == word; });
  if (kind != std::end(kCollectiveWords)) {
    fit.kind = kind->kind;
  } else if (!word.empty()) {
    reader.Reject("kind", word +
                              "; must be one of all_reduce, all_gather, reduce_scatter, "
                              "all_to_all");
  }
  fit.ranks = static_cast<int>(
      reader.Number("rank_count", {.low = 2, .high = 1e6, .is_whole = true}).value_or(0));
  fit.alpha = Seconds(reader.Number("alpha_seconds", {.low = 0, .high = 1}).value_or(0));
  fit.bandwidth = {
      reader.Number("bandwidth_bytes_per_second", {.low = 1e7, .high = 1e14}).value_or(0)};
  fit.half = RoundedBytes(reader.Number("half_bytes", {.low = 0, .high = 1e12}).value_or(0));
  if (reader.Has("curve")) ParseCurve(reader, fit);
  return fit;
}

std::string CollectiveName(const CollectiveFit& fit) {
  return fmt::format("collective_{}_{}_ranks", CollectiveWordOf(fit.kind), fit.ranks);
}

std::string CollectiveText(const CollectiveFit& fit) {
  std::string text =
      fmt::format("alpha_seconds {:g}, bandwidth_bytes_per_second {:.0f}, half_bytes {}",
                  fit.alpha.count(), fit.bandwidth.rate, fit.half.count);
  if (!fit.curve.empty()) text += fmt::format(", curve of {} sizes", fit.curve.size());
  return text;
}

}  // namespace meshwright
