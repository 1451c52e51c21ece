#include "search_space/space/space_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choice_codes.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/workload_settings.h"

namespace meshwright {
namespace {

// Returns the code of a word of a dimension; null if the dimension is a number.
using WordCode = std::optional<int> (*)(std::string_view word);

// Returns the per cent that a text states: 25 for "0.25".
std::optional<int> PercentOf(std::string_view text) {
  double ratio = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ratio);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  const double percent = 100 * ratio;
  const bool is_whole =
      percent >= 0 && percent <= 100 && std::abs(percent - std::round(percent)) < 1e-9;
  return is_whole ? std::optional(static_cast<int>(std::lround(percent))) : std::nullopt;
}

std::string Ratios() { return "0, 0.01 .. 1"; }

// The word for mixtures of granularities within a stage, allowed in addition to the granularities.
constexpr std::string_view kMixed = "mixed";
constexpr int kMixedCode = 100;

std::optional<int> RecomputeCode(std::string_view word) {
  return word == kMixed ? kMixedCode : CodeOf<RecomputeGranularity>(word);
}

std::string RecomputeChoicesText() {
  return fmt::format("{}, {}", AllowedWords<RecomputeGranularity>(), kMixed);
}

// A dimension, or another choice that a user can leave open in part.
struct Row {
  std::string_view name = {};
  std::optional<Dimension> dimension = {};
  DimensionChoice SpaceOptions::*choice = nullptr;  // for a choice that follows from dimensions
  std::optional<std::size_t> setting = {};          // for a setting of the workload: its row
  WordCode code = nullptr;
  std::string (*words)() = nullptr;

  [[nodiscard]] DimensionChoice& ChoiceIn(SpaceOptions& options) const {
    if (dimension.has_value()) return options.chosen[*dimension];
    return setting.has_value() ? options.settings[*setting] : options.*choice;
  }
};

template <typename Value>
constexpr Row RequestRow(const DimensionRow<Value>& dimension) {
  Row row = {.name = dimension.name, .dimension = dimension.dimension};
  if constexpr (std::is_same_v<Value, RecomputePlan>) {
    row.code = RecomputeCode;
    row.words = RecomputeChoicesText;
  } else if constexpr (std::is_same_v<Value, bool>) {
    row.code = TruthOf;
    row.words = Truths;
  } else if constexpr (std::is_same_v<Value, double>) {
    row.code = PercentOf;
    row.words = Ratios;
  } else if constexpr (std::is_enum_v<Value>) {
    row.code = CodeOf<Value>;
    row.words = AllowedWords<Value>;
  }
  return row;
}

// The dimensions, choices that follow from other dimensions, and settings of the workload, which
// are no part of a plan.
constexpr auto kRows = [] {
  std::array<Row, kDimensionCount + 2 + kWorkloadSettings.size()> rows = {};
  std::size_t count = 0;
  ForEachRow(kDimensions, [&](const auto& dimension) {
    rows[count++] = RequestRow(dimension);
    if (dimension.dimension == Dimension::kPipelineParallel) {
      rows[count++] = {.name = "data_parallel", .choice = &SpaceOptions::data_parallel};
    }
  });
  rows[count++] = {.name = "recomputed_layers", .choice = &SpaceOptions::recomputed_layers};
  for (std::size_t i = 0; i < kWorkloadSettings.size(); ++i) {
    rows[count++] = {.name = kWorkloadSettings[i].field,
                     .setting = i,
                     .code = kWorkloadSettings[i].code,
                     .words = kWorkloadSettings[i].words};
  }
  return rows;
}();

std::optional<int> NumberOf(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

// Fills in the choice of a request whose name is known; returns a description of its mistake, if
// any.
std::optional<std::string> Fill(const DimensionRequest& request, const Row& row,
                                DimensionChoice& choice) {
  const bool has_range = request.at_least.has_value() || request.at_most.has_value();
  if (request.values.empty() && !has_range) return "states neither values nor a range";
  if (has_range && row.code != nullptr) return "takes values, not a range";
  for (const std::string& value : request.values) {
    const std::optional<int> code = row.code != nullptr ? row.code(value) : NumberOf(value);
    if (!code.has_value()) {
      return fmt::format("\"{}\"; must be {}", value,
                         row.words != nullptr ? "one of " + row.words() : "a whole number");
    }
    choice.values.push_back(*code);
  }
  choice.at_least = request.at_least;
  choice.at_most = request.at_most;
  const int least = request.at_least.value_or(0);
  const int most = request.at_most.value_or(std::numeric_limits<int>::max());
  if (least < 0 || least > most) {
    return fmt::format("from {} to {}; must be a range of whole numbers >= 0", least, most);
  }
  std::vector<int> sorted = choice.values;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return "states a value twice";
  return std::nullopt;
}

// Opens the words that the user asks for, even if the framework does not list them.
template <typename Enum>
void Open(Dimension dimension, SpaceOptions& options, std::vector<Enum>& listed) {
  const auto chosen = options.chosen.find(dimension);
  if (chosen == options.chosen.end()) return;
  listed.clear();
  for (const int value : chosen->second.values) listed.push_back(static_cast<Enum>(value));
}

void OpenPercents(Dimension dimension, const SpaceOptions& options, std::vector<int>& percents) {
  const auto chosen = options.chosen.find(dimension);
  if (chosen == options.chosen.end()) return;
  percents = chosen->second.values;
  std::ranges::sort(percents);
}

// Opens all granularities, because mixtures contain them.
void OpenMixtures(SpaceOptions& options) {
  const auto chosen = options.chosen.find(Dimension::kRecompute);
  if (chosen == options.chosen.end() || chosen->second.values.front() != kMixedCode) return;
  options.chosen.erase(chosen);
  options.mixes_recompute = true;
}

}  // namespace

std::vector<FieldViolation> ApplyDimensions(const std::vector<DimensionRequest>& requests,
                                            std::string_view path, SpaceOptions& options) {
  std::vector<FieldViolation> violations;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const DimensionRequest& request = requests[i];
    const auto reject = [&](std::string description) {
      violations.push_back(
          {.field = fmt::format("{}[{}]", path, i), .description = std::move(description)});
    };
    const auto row = std::ranges::find(kRows, request.name, &Row::name);
    if (row == kRows.end()) {
      reject(fmt::format("\"{}\"; must be one of {}", request.name, DimensionNames()));
      continue;
    }
    DimensionChoice& choice = row->ChoiceIn(options);
    if (choice != DimensionChoice()) {
      reject(request.name + "; stated twice");
      continue;
    }
    if (const auto problem = Fill(request, *row, choice)) {
      reject(fmt::format("{}: {}", request.name, *problem));
    } else if (row->code == RecomputeCode && choice.values.size() > 1 &&
               std::ranges::find(choice.values, kMixedCode) != choice.values.end()) {
      reject(
          fmt::format("{}: {} includes the others; state only {}", request.name, kMixed, kMixed));
    }
  }
  if (!violations.empty()) return violations;
  OpenMixtures(options);
  Open(Dimension::kSchedule, options, options.schedules);
  Open(Dimension::kContextParallelKind, options, options.context_parallel_kinds);
  Open(Dimension::kRankOrder, options, options.rank_orders);
  options.sizes_end_stages = options.sizes_end_stages ||
                             options.chosen.contains(Dimension::kLargestStage) ||
                             options.chosen.contains(Dimension::kFirstStage);
  OpenPercents(Dimension::kWholeWeights, options, options.whole_weights_percents);
  OpenPercents(Dimension::kOptimizerOffload, options, options.offload_percents);
  OpenPercents(Dimension::kActivationOffload, options, options.activation_offload_percents);
  options.shards_in_groups =
      options.shards_in_groups || options.chosen.contains(Dimension::kZeroGroupSize);
  return violations;
}

std::string DimensionNames() {
  std::string names;
  for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace meshwright
