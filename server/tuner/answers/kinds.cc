#include "server/tuner/answers/kinds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {
namespace {

constexpr std::string_view kGroupSize = "zero_group_size";

template <typename Value>
std::string RangeText(const std::set<Value>& values) {
  if constexpr (std::is_same_v<Value, bool>) {
    return "true or false";
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return fmt::format("{} to {}", *values.begin(), *values.rbegin());
  } else {
    std::vector<std::string_view> words;
    for (const Value value : values) words.push_back(Word(value));
    return fmt::format("{}", fmt::join(words, " or "));
  }
}

// Zero stands for the whole data-parallel group.
std::string GroupRange(std::set<int> sizes) {
  const bool has_whole = sizes.erase(0) > 0;
  std::string text = sizes.size() == 1 ? fmt::format("{}", *sizes.begin()) : RangeText(sizes);
  return has_whole ? text + " or the whole group" : text;
}

// Adds the range of one member of the plans, if they differ in it.
template <typename Value, typename Get>
void AddRange(std::string_view name, const Get& get, const ParallelPlan& first,
              std::span<const ParallelPlan* const> others, std::vector<FieldRange>& ranges) {
  std::set<Value> values = {get(first)};
  for (const ParallelPlan* plan : others) values.insert(get(*plan));
  if (values.size() < 2) return;
  std::string text = RangeText(values);
  if constexpr (std::is_same_v<Value, int>) {
    if (name == kGroupSize) text = GroupRange(values);
  }
  ranges.push_back({.field = std::string(name), .values = std::move(text)});
}

}  // namespace

std::vector<FieldRange> RangesOf(const ParallelPlan& first,
                                 std::span<const ParallelPlan* const> others) {
  std::vector<FieldRange> ranges;
  ForEachRow(kPlanFields, [&](const auto& field) {
    using Value = std::remove_cvref_t<decltype(first.*field.member)>;
    if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>) {
      AddRange<Value>(
          field.facts.name, [&](const ParallelPlan& plan) { return plan.*field.member; }, first,
          others, ranges);
    }
  });
  AddRange<RecomputeGranularity>(
      "recompute.granularity", [](const ParallelPlan& plan) { return plan.recompute.granularity; },
      first, others, ranges);
  const auto differs = [&](auto member) {
    return std::ranges::any_of(
        others, [&](const ParallelPlan* plan) { return plan->*member != first.*member; });
  };
  if (differs(&ParallelPlan::layers_per_stage)) {
    ranges.push_back({.field = "layers_per_stage", .values = "several splits"});
  }
  const bool has_counts = std::ranges::any_of(others, [&](const ParallelPlan* plan) {
    return plan->recompute.granularity == first.recompute.granularity &&
           plan->recompute != first.recompute;
  });
  if (has_counts) {
    ranges.push_back({.field = "recompute.layer_counts", .values = "several numbers of layers"});
  }
  return ranges;
}

}  // namespace meshwright
