#include "cli/reports/kinds_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/reports/table.h"
#include "cli/reports/words.h"
#include "cli/reports/wrap.h"
#include "search_space/base/count_text.h"
#include "search_space/spec/workload_settings.h"

namespace meshwright {
namespace {

// Returns the text without its unit if that is the unit of `other`.
std::string WithoutUnitOf(const std::string& text, const std::string& other) {
  const std::size_t space = text.find(' ');
  const bool is_same = space != std::string::npos && other.ends_with(text.substr(space));
  return is_same ? text.substr(0, space) : text;
}

// Shows the estimate and its central 80 %: "72.3 s (56.6 .. 85.6)".
std::string IntervalText(const v1::Estimate& estimate) {
  const std::string middle = SecondsText(estimate.step_time_seconds());
  return fmt::format("{} ({} .. {})", middle,
                     WithoutUnitOf(SecondsText(estimate.step_time_low_seconds()), middle),
                     WithoutUnitOf(SecondsText(estimate.step_time_high_seconds()), middle));
}

// Returns a row of the table. Its figures have the foundation of those of plan 1 unless it says
// another.
std::vector<std::string> RowOf(int rank, const v1::RankedPlan& ranked, const std::string& usual) {
  const v1::Estimate& e = ranked.estimate();
  std::string words = FullWords(ranked);
  if (!e.provenance().empty() && e.provenance() != usual) {
    words += fmt::format("; by {} figures", e.provenance());
  }
  if (ranked.like_count() > 0) words += fmt::format("; +{} alike", CountText(ranked.like_count()));
  if (!ranked.reason().empty()) words += fmt::format("; {}", ranked.reason());
  return {fmt::format("{}", rank),
          IntervalText(e),
          CountText(static_cast<std::int64_t>(e.tokens_per_second_per_device())),
          PercentText(e.model_flops_utilization_ratio()),
          GibText(e.memory_capacity_bytes() - e.reserved_memory_bytes()),
          ProbabilityText(e.fit_probability_ratio()),
          ranked.has_fastest_probability_ratio()
              ? ProbabilityText(ranked.fastest_probability_ratio())
              : "-",
          std::move(words)};
}

// A field of a plan in plain words; its values stand in place of "#".
struct RangeName {
  std::string_view field;
  std::string_view words;
};

constexpr RangeName kRangeNames[] = {
    {"data_parallel", "data parallelism of #"},
    {"context_parallel", "context parallelism of #"},
    {"context_parallel_kind", "context parallelism by #"},
    {"expert_parallel", "expert parallelism of #"},
    {"expert_tensor_parallel", "tensor parallelism of # for experts"},
    {"virtual_pipeline", "# virtual stages"},
    {"micro_batch_size", "micro-batches of #"},
    {"zero_stage", "ZeRO #"},
    {"zero_group_size", "ZeRO groups of #"},
    {"schedule", "schedule #"},
    {"rank_order", "order of ranks #"},
    {"recompute.granularity", "recomputation #"},
    {"optimizer_offload_ratio", "a share of # of the optimizer on the host"},
    {"activation_offload_ratio", "a share of # of the layers' activations on the host"},
    {"whole_weights_ratio", "a share of # of the weights gathered"},
    {"sequence_parallel", "with or without sequence parallelism"},
    {"layers_per_stage", "# of the layers over the stages"},
    {"recompute.layer_counts", "# recomputed"},
};

// Says in plain words in which field plans that cannot be told apart differ: "ZeRO groups of 4 or
// the whole group".
std::string RangeWords(const v1::FieldRange& range) {
  const auto* const name = std::ranges::find(kRangeNames, range.field(), &RangeName::field);
  if (name == std::end(kRangeNames)) return fmt::format("{} {}", range.field(), range.values());
  std::string words(name->words);
  const std::size_t at = words.find('#');
  if (at != std::string::npos) words.replace(at, 1, range.values());
  return words;
}

}  // namespace

std::string FullWords(const v1::RankedPlan& ranked) {
  std::vector<std::string> words;
  for (const v1::WorkloadSetting& setting : ranked.settings()) {
    const bool speaks = setting.field() == kPrecisionField;
    words.push_back(speaks ? setting.value() : setting.field() + "=" + setting.value());
  }
  words.push_back(PlanWords(ranked.plan()));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string KindsTable(const v1::TuneResult& result, int columns, int most) {
  Table table({{.title = "#", .align = Align::kRight},
               {.title = "step time (80 %)"},
               {.title = "tokens/s/device", .align = Align::kRight},
               {.title = "MFU", .align = Align::kRight},
               {.title = "free GiB", .align = Align::kRight},
               {.title = "fits", .align = Align::kRight},
               {.title = "fastest", .align = Align::kRight},
               {.title = "plan"}});
  // The verdict says what a plan to launch rests on.
  const bool is_told = result.recommendation() == "launch" && !result.plans().empty();
  const std::string usual = is_told ? result.plans(0).estimate().provenance() : "";
  const int shown = std::min(most, result.plans_size());
  for (int i = 0; i < shown; ++i) table.AddRow(RowOf(i + 1, result.plans(i), usual));
  const bool is_first =
      is_told && result.has_baseline() && IsSame(result.baseline(), result.plans(0));
  if (result.has_baseline() && !is_first) table.AddRow(RowOf(0, result.baseline(), usual));
  std::string text = table.Text(kIndent, columns);
  if (shown < result.plans_size()) {
    text +=
        fmt::format("{}{} more kinds of plans (--verbose)\n", kIndent, result.plans_size() - shown);
  }
  return text;
}

std::string LikeLines(const v1::TuneResult& result, int columns) {
  std::string lines;
  int rank = 0;
  for (const v1::RankedPlan& ranked : result.plans()) {
    ++rank;
    if (ranked.like_count() == 0) continue;
    std::vector<std::string> ranges;
    for (const v1::FieldRange& range : ranked.like_ranges()) ranges.push_back(RangeWords(range));
    lines += Wrapped(fmt::format("{}: {} more that cannot be told apart: {}", rank,
                                 CountText(ranked.like_count()), fmt::join(ranges, "; ")),
                     columns, kIndent, std::string(kIndent) + kIndent);
  }
  return lines;
}

bool IsSame(const v1::RankedPlan& a, const v1::RankedPlan& b) {
  return a.plan_digest() == b.plan_digest() &&
         std::ranges::equal(a.settings(), b.settings(), {}, &v1::WorkloadSetting::value,
                            &v1::WorkloadSetting::value);
}

}  // namespace meshwright
