#include "search_space/space/space_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Codes of the words of a dimension; empty where it is a number.
using WordCode = std::optional<int> (*)(std::string_view word);

template <typename Enum>
std::optional<int> CodeOf(std::string_view word) {
  const auto value = ParseChoice<Enum>(word);
  return value.has_value() ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::optional<int> TruthOf(std::string_view word) {
  if (word == "false") return 0;
  return word == "true" ? std::optional(1) : std::nullopt;
}

std::string Truths() { return "false, true"; }

// "0.25" is 25 per cent.
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

// Beside the granularities: mixtures of them within a stage.
constexpr std::string_view kMixed = "mixed";
constexpr int kMixedCode = 100;

std::optional<int> RecomputeCode(std::string_view word) {
  return word == kMixed ? kMixedCode : CodeOf<RecomputeGranularity>(word);
}

std::string RecomputeWords() {
  return fmt::format("{}, {}", AllowedWords<RecomputeGranularity>(), kMixed);
}

struct Row {
  std::string_view name;
  DimensionChoice& (*choice)(SpaceOptions&);
  WordCode code = nullptr;
  std::string (*words)() = nullptr;
};

template <Dimension kDimension>
DimensionChoice& Of(SpaceOptions& options) {
  return options.chosen[kDimension];
}
DimensionChoice& DataParallel(SpaceOptions& options) { return options.data_parallel; }
DimensionChoice& RecomputedLayers(SpaceOptions& options) { return options.recomputed_layers; }
DimensionChoice& Precisions(SpaceOptions& options) { return options.precisions; }

constexpr Row kRows[] = {
    {"tensor_parallel", Of<Dimension::kTensorParallel>},
    {"context_parallel", Of<Dimension::kContextParallel>},
    {"context_parallel_kind", Of<Dimension::kContextParallelKind>, CodeOf<ContextParallelKind>,
     AllowedWords<ContextParallelKind>},
    {"pipeline_parallel", Of<Dimension::kPipelineParallel>},
    {"data_parallel", DataParallel},
    {"expert_parallel", Of<Dimension::kExpertParallel>},
    {"expert_tensor_parallel", Of<Dimension::kExpertTensorParallel>},
    {"rank_order", Of<Dimension::kRankOrder>, CodeOf<RankOrder>, AllowedWords<RankOrder>},
    {"sequence_parallel", Of<Dimension::kSequenceParallel>, TruthOf, Truths},
    {"micro_batch_size", Of<Dimension::kMicroBatchSize>},
    {"schedule", Of<Dimension::kSchedule>, CodeOf<Schedule>, AllowedWords<Schedule>},
    {"virtual_pipeline", Of<Dimension::kVirtualPipeline>},
    {"largest_stage_layers", Of<Dimension::kLargestStage>},  // 0: as the framework splits
    {"first_stage_layers", Of<Dimension::kFirstStage>},
    {"zero_stage", Of<Dimension::kZeroStage>},
    {"zero_group_size", Of<Dimension::kZeroGroupSize>},  // 0: the whole data-parallel group
    {"whole_weights_ratio", Of<Dimension::kWholeWeights>, PercentOf, Ratios},
    {"optimizer_offload_ratio", Of<Dimension::kOptimizerOffload>, PercentOf, Ratios},
    {"activation_offload_ratio", Of<Dimension::kActivationOffload>, PercentOf, Ratios},
    {"recompute", Of<Dimension::kRecompute>, RecomputeCode, RecomputeWords},
    {"recomputed_layers", RecomputedLayers},
    {"precision", Precisions, CodeOf<Precision>, AllowedWords<Precision>},
};

std::optional<int> NumberOf(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && value >= 0;
  return is_number ? std::optional(value) : std::nullopt;
}

// What is wrong with a request whose name is known; fills in its choice.
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

// Words that are asked for are looked at whether the framework lists them or not.
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

// Mixtures have the granularities among them: all of these stay open.
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
    const auto* row = std::ranges::find(kRows, request.name, &Row::name);
    if (row == std::end(kRows)) {
      reject(fmt::format("\"{}\"; must be one of {}", request.name, DimensionNames()));
      continue;
    }
    DimensionChoice& choice = row->choice(options);
    if (choice != DimensionChoice()) {
      reject(request.name + "; stated twice");
      continue;
    }
    if (const auto problem = Fill(request, *row, choice)) {
      reject(fmt::format("{}: {}", request.name, *problem));
    } else if (row->code == RecomputeCode && choice.values.size() > 1 &&
               std::ranges::find(choice.values, kMixedCode) != choice.values.end()) {
      reject(fmt::format("{}: {} has the others in it; state it alone", request.name, kMixed));
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
