// Compares the table of plan fields with what cannot be generated from it, and shows for each field
// separately that no edge drops it. All these tests include a new field once it has its row.
#include "search_space/spec/plan_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "meshwright/v1/problem.pb.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/convert/convert.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"
#include "server/plugins/protocol/columns.h"
#include "server/plugins/wire/question_wire.h"
#include "server/tuner/question/problem.h"
#include "tests/files/source_folder.h"
#include "vendor_models/abi/meshwright_costmodel.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Row>
using ValueOf = typename std::decay_t<Row>::value_type;

template <typename Value>
constexpr bool kIsList = false;
template <typename Value>
constexpr bool kIsList<std::vector<Value>> = true;

template <typename Table>
std::set<std::string> Names(const Table& table) {
  std::set<std::string> names;
  ForEachRow(table, [&](const auto& row) { names.insert(std::string(row.facts.name)); });
  return names;
}

std::set<std::string> Names(const Descriptor& message) {
  std::set<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.insert(message.field(i)->name());
  return names;
}

// Returns the type that a field of a v1 message has for a member of this type.
template <typename Value>
FieldDescriptor::Type WireType() {
  if constexpr (std::is_same_v<Value, bool>) return FieldDescriptor::TYPE_BOOL;
  if constexpr (std::is_same_v<Value, int>) return FieldDescriptor::TYPE_INT32;
  if constexpr (std::is_same_v<Value, double>) return FieldDescriptor::TYPE_DOUBLE;
  if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, std::string>) {
    return FieldDescriptor::TYPE_STRING;
  }
  return FieldDescriptor::TYPE_MESSAGE;  // recomputation or a stage
}

template <typename Value>
FieldDescriptor::Type WireType(const Value*) {
  return WireType<Value>();
}
template <typename Value>
FieldDescriptor::Type WireType(const std::vector<Value>*) {
  return WireType<Value>();
}

// `shorthand` is a field of the message that the reader expands.
template <typename Table>
void ExpectSameFields(const Table& table, const Descriptor& message,
                      const std::string& shorthand = "") {
  std::set<std::string> names = Names(message);
  EXPECT_EQ(names.erase(shorthand), shorthand.empty() ? 0u : 1u);
  EXPECT_EQ(Names(table), names) << message.full_name();
  ForEachRow(table, [&](const auto& row) {
    const FieldDescriptor* const field = message.FindFieldByName(std::string(row.facts.name));
    if (field == nullptr) return;  // reported above
    SCOPED_TRACE(field->full_name());
    const ValueOf<decltype(row)>* const value = nullptr;
    EXPECT_EQ(field->type(), WireType(value));
    EXPECT_EQ(field->is_repeated(), kIsList<ValueOf<decltype(row)>>);
    EXPECT_TRUE(field->is_repeated() || field->has_presence()) << "must be optional";
  });
}

TEST(PlanFieldsTest, TheMessagesOfRequestsAndAnswersHaveThem) {
  ExpectSameFields(kPlanFields, *v1::Plan::descriptor());
  ExpectSameFields(kStageFields, *v1::StagePlan::descriptor(), "count");
  ExpectSameFields(kReplicaGroupFields, *v1::ReplicaGroup::descriptor());
  ExpectSameFields(kRecomputeFields, *v1::RecomputePlan::descriptor());
}

template <typename Table>
void ExpectCodes(const Table& table, std::set<std::string> inner) {
  ForEachRow(table, [&](const auto& row) {
    if constexpr (std::is_same_v<ValueOf<decltype(row)>, RecomputePlan>) return;
    // A reader recognizes an optional field by its code, so no code may begin with another.
    EXPECT_EQ(row.facts.code.size(), 2u) << row.facts.name;
    EXPECT_TRUE(inner.insert(std::string(row.facts.code)).second) << row.facts.name;
  });
}

TEST(PlanFieldsTest, CodesOfKeysDiffer) {
  std::set<std::string> codes;
  ForEachRow(kRecomputeFields, [&](const auto& row) {
    EXPECT_TRUE(codes.insert(std::string(row.facts.code)).second) << row.facts.name;
  });
  ExpectCodes(kPlanFields, codes);
  ExpectCodes(kStageFields, codes);
  ExpectCodes(kReplicaGroupFields, codes);
}

// --- columns

struct WireColumn {
  std::string name;
  FieldDescriptor::CppType type;
  bool operator==(const WireColumn&) const = default;
};

template <typename Value>
FieldDescriptor::CppType ColumnType() {
  if constexpr (std::is_same_v<Value, bool>) return FieldDescriptor::CPPTYPE_BOOL;
  if constexpr (std::is_same_v<Value, std::uint32_t>) return FieldDescriptor::CPPTYPE_UINT32;
  if constexpr (std::is_same_v<Value, double>) return FieldDescriptor::CPPTYPE_DOUBLE;
  return FieldDescriptor::CPPTYPE_INT32;
}

template <typename Visit>
void ForEveryColumn(Visit&& visit) {
  ForEachColumn(visit);
  for (const CandidateLists& lists : kListColumns) {
    visit(lists.lengths);
    visit(lists.values);
  }
}

TEST(ColumnsTest, AreThoseOfTheMessage) {
  const Descriptor& message = *costmodel::v1::Candidates::descriptor();
  std::set<std::string> names = {"count"};
  ForEveryColumn([&](const auto& column) {
    SCOPED_TRACE(column.name);
    names.insert(std::string(column.name));
    const FieldDescriptor* const field = message.FindFieldByName(std::string(column.name));
    ASSERT_NE(field, nullptr);
    EXPECT_TRUE(field->is_repeated());
    const bool is_word = field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
    EXPECT_EQ(is_word ? FieldDescriptor::CPPTYPE_INT32 : field->cpp_type(),
              ColumnType<ValueOf<decltype(column)>>());
    costmodel::v1::Candidates candidates;
    (candidates.*column.get_mutable)()->Add({});
    EXPECT_EQ((candidates.*column.get)().size(), 1);
    EXPECT_EQ(candidates.GetReflection()->FieldSize(candidates, field), 1) << "another's column";
  });
  EXPECT_EQ(names, Names(message));
}

TEST(ColumnsTest, AreThoseOfTheLibrarysStruct) {
  std::set<const void*> places;
  const mw_candidates batch = {};
  std::size_t count = 0;
  ForEveryColumn([&](const auto& column) {
    places.insert(&(batch.*column.in_library));
    ++count;
  });
  EXPECT_EQ(places.size(), count) << "two rows name one member";
  EXPECT_EQ(sizeof(mw_candidates), offsetof(mw_candidates, tensor_parallel) + count * sizeof(void*))
      << "a member of mw_candidates has no row in server/plugins/protocol/columns.h";
}

// Returns the name on the wire: SCHEDULE_1F1B for "1f1b", RANK_ORDER_TP_CP_EP_DP_PP for
// "tp-cp-ep-dp-pp".
std::string WordOnWire(const EnumDescriptor& words, std::string_view word) {
  const std::string zero = words.FindValueByNumber(0)->name();
  std::string name = zero.substr(0, zero.size() - std::string_view("UNSPECIFIED").size());
  for (const char c : word) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

template <typename Enum>
void ExpectWords(const std::string& column) {
  const FieldDescriptor* const field =
      costmodel::v1::Candidates::descriptor()->FindFieldByName(column);
  ASSERT_NE(field, nullptr) << column;
  ASSERT_EQ(field->cpp_type(), FieldDescriptor::CPPTYPE_ENUM) << column;
  const EnumDescriptor& words = *field->enum_type();
  EXPECT_EQ(words.value_count(), std::ssize(Choices<Enum>()) + 1) << words.full_name();
  for (const auto& [value, word] : Choices<Enum>()) {
    const auto* const on_wire = words.FindValueByNumber(static_cast<int>(value) + 1);
    ASSERT_NE(on_wire, nullptr) << word;
    EXPECT_EQ(on_wire->name(), WordOnWire(words, word));
  }
}

TEST(ColumnsTest, WordsAreThoseOfTheVocabularyFromOne) {
  ExpectWords<RecomputeGranularity>("recompute");
  ForEachRow(kPlanFields, [](const auto& field) {
    using Value = ValueOf<decltype(field)>;
    if constexpr (std::is_enum_v<Value>) {
      if (field.facts.is_column) ExpectWords<Value>(std::string(field.facts.name));
    }
  });
}

// --- each field by itself

int Other(int value) { return value + 1; }
bool Other(bool value) { return !value; }
double Other(double) { return 0.5; }
template <typename Enum>
requires std::is_enum_v<Enum> Enum Other(Enum value) {
  const auto choices = Choices<Enum>();
  return choices[0].value == value ? choices[1].value : choices[0].value;
}
std::vector<int> Other(const std::vector<int>&) { return {3, 4}; }
std::vector<std::string> Other(const std::vector<std::string>&) { return {"a"}; }
RecomputePlan Other(const RecomputePlan&) {
  return {.granularity = RecomputeGranularity::kFull,
          .layer_counts = {3},
          .modules = {"mlp"},
          .selective_layer_counts = {1}};
}
std::vector<StagePlan> Other(const std::vector<StagePlan>&) {
  return {{.pool = "a", .node_count = 2, .recompute = Other(RecomputePlan())}};
}

std::vector<ReplicaGroup> Other(const std::vector<ReplicaGroup>&) {
  return {{.replica_count = 2, .micro_batch_count = 3, .stages = Other(std::vector<StagePlan>())},
          {.replica_count = 1,
           .stages = {{.pool = "b", .node_count = 1, .device_count = 4},
                      {.pool = "c", .node_count = 1}}}};
}

// Calls visit(plan, field) for each field, with a plan in which that field is not at its default.
template <typename Visit>
void ForEveryField(Visit&& visit) {
  ForEachRow(kPlanFields, [&](const auto& field) {
    SCOPED_TRACE(field.facts.name);
    ParallelPlan plan;
    plan.*field.member = Other(kDefaultPlan.*field.member);
    visit(plan, field);
  });
}

TEST(EveryPlanFieldTest, IsInKeys) {
  const std::string plain = MakePlanKey(kDefaultPlan).text;
  ForEveryField([&](const ParallelPlan& plan, const auto& field) {
    const std::string text = MakePlanKey(plan).text;
    EXPECT_NE(text, plain);
    EXPECT_EQ(ParsePlanKey(text), plan);
    if (field.facts.code.empty()) return;  // the key has its members instead
    const bool is_in_plain = ("." + plain).find("." + std::string(field.facts.code)) != plain.npos;
    EXPECT_EQ(is_in_plain, field.facts.default_is_written == DefaultIsWritten::kInKeysAndAnswers);
  });
}

TEST(EveryPlanFieldTest, IsInRequestsAndAnswers) {
  ForEveryField([](const ParallelPlan& plan, const auto& field) {
    const PlanRequest stated = StatedPlan(plan);
    std::vector<FieldViolation> found;
    const v1::Plan wire = ToWire(plan);
    EXPECT_EQ(ReadPlan(MessageReader(wire, "", found)), stated);
    EXPECT_THAT(found, IsEmpty());
    PlanRequest only = {};
    only.*field.stated = plan.*field.member;
    EXPECT_EQ(ReadPlan(MessageReader(ToWire(only), "", found)), only);
    EXPECT_THAT(Validate(only, "plan"), IsEmpty());
  });
}

TEST(EveryPlanFieldTest, HasLimits) {
  ForEveryField([](const ParallelPlan&, const auto& field) {
    using Value = ValueOf<decltype(field)>;
    PlanRequest low = {};
    PlanRequest high = {};
    if constexpr (std::is_same_v<Value, int>) {
      low.*field.stated = field.facts.least - 1;
      high.*field.stated = field.facts.most + 1;
    } else if constexpr (std::is_same_v<Value, double>) {
      low.*field.stated = -0.5;
      high.*field.stated = 1.5;
    } else {
      return;
    }
    for (const PlanRequest& plan : {low, high}) {
      const auto violations = Validate(plan, "plan");
      ASSERT_EQ(violations.size(), 1u);
      EXPECT_EQ(violations.front().field, "plan." + std::string(field.facts.name));
    }
  });
}

costmodel::v1::Candidates ColumnsOf(const std::vector<ParallelPlan>& plans) {
  return ToCandidates(plans, Problem());
}

TEST(EveryPlanFieldTest, IsInTheColumnsOfVendorsModels) {
  ForEveryField([](const ParallelPlan& plan, const auto& field) {
    if (!field.facts.is_column) return;
    const auto none = ColumnsOf({kDefaultPlan});
    EXPECT_EQ(none.ByteSizeLong(), 2u) << "more than count = 1";
    const auto candidates = ColumnsOf({kDefaultPlan, plan});
    const FieldDescriptor* const column =
        candidates.GetDescriptor()->FindFieldByName(std::string(field.facts.name));
    ASSERT_NE(column, nullptr);
    EXPECT_GT(candidates.GetReflection()->FieldSize(candidates, column), 0);
  });
}

TEST(DimensionsTest, HaveNamesThatRequestsKnow) {
  std::set<std::string_view> names;
  ForEachRow(kDimensions, [&](const auto& row) {
    EXPECT_FALSE(row.name.empty()) << static_cast<int>(row.dimension);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_THAT(DimensionNames(), HasSubstr(std::string(row.name)));
  });
}

// --- the Python reader of jobs

// Returns the keys of `NAME = { "key": ..., }` in a Python source.
std::set<std::string> PythonKeys(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t start = text.find('\n' + name + " = {");
  EXPECT_NE(start, std::string::npos) << name << " in " << path;
  if (start == std::string::npos) return {};
  const std::string table = text.substr(start, text.find('}', text.find(")}", start)) - start);
  const std::regex key("\"([a-z_]+)\": \\(");
  std::set<std::string> keys;
  for (std::sregex_iterator at(table.begin(), table.end(), key), end; at != end; ++at) {
    keys.insert((*at)[1]);
  }
  return keys;
}

// The reader may omit a field whose default is written nowhere: it refuses a plan that states it.
TEST(PlanFieldsTest, TheReaderOfJobsKnowsThem) {
  const std::filesystem::path path = SourceFolder() / "workloads/train/case.py";
  const std::set<std::string> keys = PythonKeys(path, "PLAN");
  ForEachRow(kPlanFields, [&](const auto& field) {
    if (field.facts.default_is_written == DefaultIsWritten::kNowhere) return;
    EXPECT_THAT(keys, Contains(std::string(field.facts.name))) << path;
  });
  for (const std::string& key : keys) EXPECT_THAT(Names(kPlanFields), Contains(key)) << path;
  EXPECT_EQ(PythonKeys(path, "RECOMPUTE"), Names(kRecomputeFields)) << path;
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
