#include "vendor_models/residual_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "search_space/base/shown_value.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKeys[] = {"confidence", "is_grouped", "pass",  "precision",
                                      "provenance", "shapes",     "source"};

struct PassWord {
  std::optional<GemmPass> pass;
  std::string_view word;
};
constexpr PassWord kPassWords[] = {
    {std::nullopt, "any"},
    {GemmPass::kForward, "forward"},
    {GemmPass::kInputGradient, "input_gradient"},
    {GemmPass::kWeightGradient, "weight_gradient"},
};

constexpr std::size_t kRowSize = 5;
constexpr NumberLimits kSizes = {.low = 1, .high = 1e9};
constexpr NumberLimits kRatios = {.low = 0.05, .high = 20};

std::optional<GemmResidual> ParseRow(const Json& row) {
  if (!row.is_array() || row.size() != kRowSize) return std::nullopt;
  double logs[kRowSize];
  for (std::size_t i = 0; i < kRowSize; ++i) {
    if (!row[i].is_number()) return std::nullopt;
    const double value = row[i].get<double>();
    const NumberLimits& limits = i + 1 == kRowSize ? kRatios : kSizes;
    if (value < limits.low || value > limits.high) return std::nullopt;
    logs[i] = std::log(value);
  }
  return GemmResidual{.log_count = logs[0],
                      .log_m = logs[1],
                      .log_n = logs[2],
                      .log_k = logs[3],
                      .log_time_ratio = logs[4]};
}

void ParseShapes(ObjectReader& reader, GemmResidualTable& table) {
  const Json* shapes = reader.Find("shapes");
  if (shapes == nullptr) return;
  if (!shapes->is_array() || shapes->empty()) {
    reader.Reject("shapes", fmt::format("{}; must be a list of [count, m, n, k, time_ratio]",
                                        ShownValue(*shapes)));
    return;
  }
  for (std::size_t i = 0; i < shapes->size(); ++i) {
    const std::optional<GemmResidual> shape = ParseRow((*shapes)[i]);
    if (shape.has_value()) {
      table.shapes.push_back(*shape);
      continue;
    }
    reader.Reject(
        fmt::format("shapes[{}]", i),
        fmt::format("{}; must be [count, m, n, k, time_ratio], sizes from {:g} to {:g}, "
                    "the ratio from {:g} to {:g}",
                    ShownValue((*shapes)[i]), kSizes.low, kSizes.high, kRatios.low, kRatios.high));
  }
}

}  // namespace

GemmResidualTable ParseResidualTable(ObjectReader& reader) {
  reader.AllowOnly(kKeys);
  GemmResidualTable table;
  table.precision = reader.Choice<Precision>("precision").value_or(Precision::kBf16);
  if (table.precision == Precision::kFp16) {
    reader.Reject("precision", "fp16; must be bf16, which stands for both");
  }
  const std::string word = reader.Text("pass");
  const auto* const pass = std::find_if(std::begin(kPassWords), std::end(kPassWords),
                                        [&word](const PassWord& w) { return w.word == word; });
  if (pass != std::end(kPassWords)) {
    table.pass = pass->pass;
  } else if (!word.empty()) {
    reader.Reject("pass", word + "; must be one of any, forward, input_gradient, weight_gradient");
  }
  table.is_grouped = reader.Flag("is_grouped").value_or(false);
  ParseShapes(reader, table);
  const bool has_groups = std::any_of(table.shapes.begin(), table.shapes.end(),
                                      [](const GemmResidual& r) { return r.log_count > 0; });
  if (has_groups && !table.is_grouped) {
    reader.Reject("shapes", "counts above 1; must be 1 where is_grouped is false");
  }
  IndexShapes(table);
  return table;
}

std::string_view ResidualPassWord(const GemmResidualTable& table) {
  const auto* const pass =
      std::find_if(std::begin(kPassWords), std::end(kPassWords),
                   [&table](const PassWord& w) { return w.pass == table.pass; });
  return pass->word;
}

std::string ResidualTableName(const GemmResidualTable& table) {
  return fmt::format("gemm_residuals_{}_{}{}", Word(table.precision), ResidualPassWord(table),
                     table.is_grouped ? "_grouped" : "");
}

}  // namespace meshwright
