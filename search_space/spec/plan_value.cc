#include "search_space/spec/plan_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <type_traits>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {
namespace {

std::string ValueText(const std::vector<StagePlan>& stages) {
  return stages.empty() ? "[]" : "stated";
}
std::string ValueText(const std::vector<ReplicaGroup>& groups) {
  return groups.empty() ? "[]" : "stated";
}
std::string ValueText(const RecomputePlan& recompute) {
  return std::string(Word(recompute.granularity));
}
template <typename Value>
std::string ValueText(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(Word(value));
  } else {
    return fmt::format("{}", value);
  }
}

template <typename Fields, typename Struct>
std::string ValueOf(const Fields& fields, const Struct& values, std::string_view name) {
  std::string text;
  ForEachRow(fields, [&](const auto& field) {
    if (field.facts.name == name) text = ValueText(values.*field.member);
  });
  return text;
}

}  // namespace

std::string PlanValue(const ParallelPlan& plan, std::string_view name) {
  constexpr std::string_view kRecompute = "recompute.";
  if (name.starts_with(kRecompute)) {
    return ValueOf(kRecomputeFields, plan.recompute, name.substr(kRecompute.size()));
  }
  return ValueOf(kPlanFields, plan, name);
}

}  // namespace meshwright
