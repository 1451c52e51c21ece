#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename Value>
constexpr bool kIsList = false;
template <typename Value>
constexpr bool kIsList<std::vector<Value>> = true;

template <typename Struct, typename Fields>
Struct ReadAll(const MessageReader& in, const Fields& fields);

// Reads one field of a message; returns nullopt if it is not stated.
template <typename Value>
std::optional<Value> ReadOne(const MessageReader& in, std::string_view name) {
  if constexpr (std::is_same_v<Value, int>) {
    return in.Int(name);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return in.Bool(name);
  } else if constexpr (std::is_same_v<Value, double>) {
    return in.Double(name);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return in.Text(name);
  } else if constexpr (std::is_enum_v<Value>) {
    return in.Choice<Value>(name);
  } else {
    static_assert(std::is_same_v<Value, RecomputePlan>);
    const std::optional<MessageReader> recompute = in.Child(name);
    if (!recompute.has_value()) return std::nullopt;
    return ReadAll<RecomputePlan>(*recompute, kRecomputeFields);
  }
}

// The most stages of a plan. No model has so many layers, and a few bytes with `count` must not
// take much memory.
constexpr int kMostStages = 1'000;

// Returns each stage, also of those that state a `count`.
std::vector<StagePlan> ReadStages(const MessageReader& in, std::string_view name);

template <typename List>
List ReadList(const MessageReader& in, std::string_view name) {
  if constexpr (std::is_same_v<List, std::vector<int>>) {
    return in.Ints(name);
  } else if constexpr (std::is_same_v<List, std::vector<std::string>>) {
    return in.Texts(name);
  } else if constexpr (std::is_same_v<List, std::vector<StagePlan>>) {
    return ReadStages(in, name);
  } else {
    List groups;
    std::size_t stage_count = 0;
    for (const MessageReader& group : in.Children(name)) {
      groups.push_back(ReadAll<ReplicaGroup>(group, kReplicaGroupFields));
      if (groups.back().stages.empty()) group.Add("stages", "empty; must have at least one stage");
      stage_count += groups.back().stages.size();
      if (stage_count > static_cast<std::size_t>(kMostStages)) {
        group.Add("stages", fmt::format("all groups have more than {} stages; must have at most "
                                        "as many",
                                        kMostStages));
        break;
      }
    }
    return groups;
  }
}

std::vector<StagePlan> ReadStages(const MessageReader& in, std::string_view name) {
  std::vector<StagePlan> stages;
  for (const MessageReader& stage : in.Children(name)) {
    const StagePlan own = ReadAll<StagePlan>(stage, kStageFields);
    const int count = stage.Int("count").value_or(1);
    const int room = kMostStages - static_cast<int>(stages.size());
    if (count < 1 || count > room) {
      stage.Add("count",
                fmt::format("{}; must be >= 1, and all stages at most {}", count, kMostStages));
      break;  // what follows may be as long
    }
    stages.insert(stages.end(), static_cast<std::size_t>(count), own);
  }
  return stages;
}

template <typename Struct, typename Fields>
Struct ReadAll(const MessageReader& in, const Fields& fields) {
  Struct values;
  ForEachRow(fields, [&](const auto& field) {
    using Value = typename std::decay_t<decltype(field)>::value_type;
    const std::string_view name = field.facts.name;
    if constexpr (kIsList<Value>) {
      values.*field.member = ReadList<Value>(in, name);
    } else {
      const std::optional<Value> stated = ReadOne<Value>(in, name);
      values.*field.member =
          field.facts.is_required ? in.Required(name, stated) : stated.value_or(DefaultOf(field));
    }
  });
  return values;
}

// Writes the fields of one message by name.
class MessageWriter {
 public:
  explicit MessageWriter(Message& message) : message_(message) {}

  void Write(std::string_view name, int value) {
    reflection_.SetInt32(&message_, Field(name), value);
  }
  void Write(std::string_view name, bool value) {
    reflection_.SetBool(&message_, Field(name), value);
  }
  void Write(std::string_view name, double value) {
    reflection_.SetDouble(&message_, Field(name), value);
  }
  void Write(std::string_view name, const std::string& value) {
    reflection_.SetString(&message_, Field(name), value);
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Write(std::string_view name, Enum value) { Write(name, std::string(Word(value))); }
  void Write(std::string_view name, const RecomputePlan& recompute) {
    MessageWriter(*reflection_.MutableMessage(&message_, Field(name)))
        .WriteAll(kRecomputeFields, recompute);
  }
  void Write(std::string_view name, const std::vector<int>& values) {
    for (const int value : values) reflection_.AddInt32(&message_, Field(name), value);
  }
  void Write(std::string_view name, const std::vector<std::string>& values) {
    for (const std::string& value : values) reflection_.AddString(&message_, Field(name), value);
  }
  void Write(std::string_view name, const std::vector<StagePlan>& stages) {
    for (const StagePlan& stage : stages) {
      MessageWriter(*reflection_.AddMessage(&message_, Field(name))).WriteAll(kStageFields, stage);
    }
  }
  void Write(std::string_view name, const std::vector<ReplicaGroup>& groups) {
    for (const ReplicaGroup& group : groups) {
      MessageWriter(*reflection_.AddMessage(&message_, Field(name)))
          .WriteAll(kReplicaGroupFields, group);
    }
  }
  template <typename Value>
  void Write(std::string_view name, const std::optional<Value>& value) {
    if (value.has_value()) Write(name, *value);
  }

 private:
  template <typename Fields, typename Struct>
  void WriteAll(const Fields& fields, const Struct& values) {
    ForEachRow(fields, [&](const auto& field) {
      const bool omits_default = field.facts.default_is_written == DefaultIsWritten::kNowhere;
      if (omits_default && values.*field.member == DefaultOf(field)) return;
      Write(field.facts.name, values.*field.member);
    });
  }

  // The tables contain only names that the messages have, as tests/plan_fields checks.
  [[nodiscard]] const FieldDescriptor* Field(std::string_view name) const {
    return message_.GetDescriptor()->FindFieldByName(std::string(name));
  }

  Message& message_;
  const Reflection& reflection_ = *message_.GetReflection();
};

}  // namespace

PlanRequest ReadPlan(const MessageReader& in) {
  PlanRequest plan;
  ForEachRow(kPlanFields, [&](const auto& field) {
    using Value = typename std::decay_t<decltype(field)>::value_type;
    if constexpr (kIsList<Value>) {
      plan.*field.stated = ReadList<Value>(in, field.facts.name);
    } else {
      plan.*field.stated = ReadOne<Value>(in, field.facts.name);
    }
  });
  return plan;
}

v1::Plan ToWire(const PlanRequest& plan) {
  v1::Plan wire;
  MessageWriter writer(wire);
  ForEachRow(kPlanFields,
             [&](const auto& field) { writer.Write(field.facts.name, plan.*field.stated); });
  return wire;
}

v1::Plan ToWire(const ParallelPlan& plan) { return ToWire(StatedPlan(plan)); }

}  // namespace meshwright
