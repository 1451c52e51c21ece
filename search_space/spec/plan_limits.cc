#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/limits.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {
namespace {

// Checks the fields of a request against the limits of the table of plan fields.
class FieldLimits {
 public:
  explicit FieldLimits(LimitChecker& checker) : checker_(checker) {}

  template <typename Fields>
  void CheckAll(const Fields& fields, const PlanRequest& plan) {
    ForEachRow(fields, [&](const auto& field) { Check("", field.facts, plan.*field.stated); });
  }

 private:
  template <typename Fields, typename Struct>
  void CheckInner(const Fields& fields, const std::string& path, const Struct& values) {
    ForEachRow(fields, [&](const auto& field) { Check(path, field.facts, values.*field.member); });
  }

  template <typename Value>
  void Check(const std::string& path, const FieldFacts& facts, const std::optional<Value>& value) {
    if (value.has_value()) Check(path, facts, *value);
  }
  // Words, names and booleans have no limits.
  template <typename Value>
  void Check(const std::string&, const FieldFacts&, const Value&) {}
  void Check(const std::string& path, const FieldFacts& facts, int value) {
    if (IsOutside(facts, value)) checker_.Range(At(path, facts), value, facts.least, facts.most);
  }
  void Check(const std::string& path, const FieldFacts& facts, double value) {
    if (value >= 0 && value <= 1) return;
    checker_.Add(At(path, facts), fmt::format("{}; must be 0 .. 1", value));
  }
  void Check(const std::string& path, const FieldFacts& facts, const std::vector<int>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!IsOutside(facts, values[i])) continue;
      checker_.Range(fmt::format("{}[{}]", At(path, facts), i), values[i], facts.least, facts.most);
    }
  }
  void Check(const std::string& path, const FieldFacts& facts, const RecomputePlan& recompute) {
    CheckInner(kRecomputeFields, At(path, facts), recompute);
  }
  void Check(const std::string& path, const FieldFacts& facts,
             const std::vector<StagePlan>& stages) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      CheckInner(kStageFields, fmt::format("{}[{}]", At(path, facts), i), stages[i]);
    }
  }
  void Check(const std::string& path, const FieldFacts& facts,
             const std::vector<ReplicaGroup>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      CheckInner(kReplicaGroupFields, fmt::format("{}[{}]", At(path, facts), i), groups[i]);
    }
  }

  static bool IsOutside(const FieldFacts& facts, int value) {
    return value < facts.least || value > facts.most;
  }
  static std::string At(const std::string& path, const FieldFacts& facts) {
    return fmt::format("{}{}{}", path, path.empty() ? "" : ".", facts.name);
  }

  LimitChecker& checker_;
};

}  // namespace

std::vector<FieldViolation> Validate(const PlanRequest& plan, std::string_view prefix) {
  LimitChecker checker(prefix);
  FieldLimits(checker).CheckAll(kPlanFields, plan);
  return std::move(checker).violations();
}

}  // namespace meshwright
