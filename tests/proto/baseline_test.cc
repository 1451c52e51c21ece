// Compares the schema with that of the last release (proto/baseline). Additions need no change of
// the baseline. At a release: build/<preset>/bin/proto_baseline_test --update_baseline
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "meshwright/v1/calibration.pb.h"
#include "meshwright/v1/catalog.pb.h"
#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/history.pb.h"
#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"
#include "meshwright/v1/trial.pb.h"
#include "tests/files/source_folder.h"
#include "tests/proto/compatibility.h"

namespace meshwright {
namespace {

using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::TextFormat;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

const std::filesystem::path kBaseline = SourceFolder() / "proto/baseline/meshwright.txtpb";

FileDescriptorSet Current() {
  const FileDescriptor* const files[] = {
      v1::ChipCalibration::descriptor()->file(), v1::Chip::descriptor()->file(),
      v1::Estimate::descriptor()->file(),        v1::Measurement::descriptor()->file(),
      v1::PlacementAnswer::descriptor()->file(), v1::Plan::descriptor()->file(),
      v1::TuneResult::descriptor()->file(),      v1::Study::descriptor()->file(),
      v1::Trial::descriptor()->file(),           costmodel::v1::Chip::descriptor()->file()};
  FileDescriptorSet set;
  for (const FileDescriptor* const file : files) file->CopyTo(set.add_file());
  google::protobuf::DescriptorPool::generated_pool()
      ->FindFileByName("meshwright/v1/options.proto")
      ->CopyTo(set.add_file());
  return set;
}

std::vector<std::string> NamesOf(const FileDescriptorSet& set) {
  std::vector<std::string> names;
  for (const FileDescriptorProto& file : set.file()) names.push_back(file.name());
  return names;
}

std::vector<std::string> NamesInTheTree() {
  std::vector<std::string> names;
  const std::filesystem::path root = SourceFolder() / "proto";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "meshwright")) {
    if (entry.path().extension() != ".proto") continue;
    names.push_back(std::filesystem::relative(entry.path(), root).string());
  }
  return names;
}

std::string Baseline() {
  std::ifstream file(kBaseline, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string TextOf(const FileDescriptorSet& set) {
  std::string text;
  EXPECT_TRUE(TextFormat::PrintToString(set, &text));
  return text;
}

TEST(BaselineTest, NobodyTripsOverTheSchema) {
  FileDescriptorSet baseline;
  ASSERT_TRUE(TextFormat::ParseFromString(Baseline(), &baseline)) << kBaseline;
  EXPECT_THAT(BrokenBy(baseline, Current()), IsEmpty())
      << "old programs would trip: reserve what is removed, and give what changes a new number";
}

TEST(BaselineTest, HasEveryFile) {
  EXPECT_THAT(NamesOf(Current()), UnorderedElementsAreArray(NamesInTheTree()));
}

DescriptorProto& Message(FileDescriptorSet& set, std::string_view name) {
  for (FileDescriptorProto& file : *set.mutable_file()) {
    for (DescriptorProto& message : *file.mutable_message_type()) {
      if (file.package() + "." + message.name() == name) return message;
    }
  }
  ADD_FAILURE() << name;
  std::abort();
}

DescriptorProto& Plan(FileDescriptorSet& set) { return Message(set, "meshwright.v1.Plan"); }

// Returns the field of a plan that the cases change.
FieldDescriptorProto& ZeroStage(FileDescriptorSet& set) {
  for (FieldDescriptorProto& field : *Plan(set).mutable_field()) {
    if (field.name() == "zero_stage") return field;
  }
  std::abort();
}

void RemoveZeroStage(FileDescriptorSet& set) {
  auto& fields = *Plan(set).mutable_field();
  for (int i = 0; i < fields.size(); ++i) {
    if (fields[i].name() == "zero_stage") return fields.DeleteSubrange(i, 1);
  }
}

void ReserveZeroStage(FileDescriptorSet& set) {
  DescriptorProto::ReservedRange& range = *Plan(set).add_reserved_range();
  range.set_start(11);
  range.set_end(12);
  Plan(set).add_reserved_name("zero_stage");
}

EnumDescriptorProto& Schedules(FileDescriptorSet& set) {
  for (FileDescriptorProto& file : *set.mutable_file()) {
    for (EnumDescriptorProto& one : *file.mutable_enum_type()) {
      if (one.name() == "Schedule") return one;
    }
  }
  std::abort();
}

google::protobuf::ServiceDescriptorProto& Tuning(FileDescriptorSet& set) {
  for (FileDescriptorProto& file : *set.mutable_file()) {
    for (auto& service : *file.mutable_service()) {
      if (service.name() == "TuningService") return service;
    }
  }
  std::abort();
}

struct Mutation {
  std::string name;
  std::function<void(FileDescriptorSet&)> mutate;
  std::string broken;  // a part of the only complaint; empty if nothing breaks
};

const Mutation kMutations[] = {
    {"Nothing", [](auto&) {}, ""},
    {"FieldRemoved", RemoveZeroStage, "meshwright.v1.Plan.zero_stage = 11 was removed"},
    {"FieldRemovedAndReserved",
     [](auto& set) {
       RemoveZeroStage(set);
       ReserveZeroStage(set);
     },
     ""},
    {"NumberAloneReserved",
     [](auto& set) {
       RemoveZeroStage(set);
       ReserveZeroStage(set);
       Plan(set).clear_reserved_name();
     },
     "zero_stage = 11 was removed and its number and name are not reserved"},
    {"FieldRenumbered", [](auto& set) { ZeroStage(set).set_number(1000); },
     "meshwright.v1.Plan.zero_stage = 11 was removed"},
    {"FieldRenamed", [](auto& set) { ZeroStage(set).set_name("zero_level"); },
     "zero_stage = 11 has another name: zero_level, was zero_stage"},
    {"FieldRetyped", [](auto& set) { ZeroStage(set).set_type(FieldDescriptorProto::TYPE_INT64); },
     "zero_stage = 11 has another type: TYPE_INT64, was TYPE_INT32"},
    {"FieldWithoutPresence",
     [](auto& set) {
       ZeroStage(set).clear_proto3_optional();
       ZeroStage(set).clear_oneof_index();
     },
     "zero_stage = 11 has another label: without presence, was optional"},
    {"MessageOfAFieldChanged",
     [](auto& set) {
       for (FieldDescriptorProto& field : *Plan(set).mutable_field()) {
         if (field.name() == "recompute") field.set_type_name(".meshwright.v1.StagePlan");
       }
     },
     "recompute = 14 has another type: .meshwright.v1.StagePlan, was"},
    {"LeftItsOneof",
     [](auto& set) {
       for (FieldDescriptorProto& field :
            *Message(set, "meshwright.v1.EvaluateAnswer").mutable_field()) {
         if (field.name() == "failed") field.clear_oneof_index();
       }
     },
     "EvaluateAnswer.failed = 2 has another oneof: , was answer"},
    {"MapValueRetyped",
     [](auto& set) {
       Message(set, "meshwright.v1.Search")
           .mutable_nested_type(0)
           ->mutable_field(1)
           ->set_type(FieldDescriptorProto::TYPE_INT32);
     },
     "PrunedCountByRuleEntry.value = 2 has another type: TYPE_INT32, was TYPE_INT64"},
    {"MessageRemoved",
     [](auto& set) { Message(set, "meshwright.v1.BackupStoreResponse").set_name("Backup"); },
     "meshwright.v1.BackupStoreResponse was removed"},
    {"ReservedNumberTaken",
     [](auto& set) {
       FieldDescriptorProto& field = *Message(set, "meshwright.v1.TuneRequest").add_field();
       field.set_name("shiny");
       field.set_number(15);
     },
     "meshwright.v1.TuneRequest.shiny = 15 takes a number or name that is reserved"},
    {"ReservationDropped",
     [](auto& set) { Message(set, "meshwright.v1.TuneRequest").clear_reserved_range(); },
     "meshwright.v1.TuneRequest reserves 15 no more"},
    {"EnumValueRemoved", [](auto& set) { Schedules(set).mutable_value()->DeleteSubrange(3, 1); },
     "costmodel.v1.Schedule.SCHEDULE_INTERLEAVED_1F1B = 3 was removed"},
    {"EnumValueRemovedAndReserved",
     [](auto& set) {
       Schedules(set).mutable_value()->DeleteSubrange(3, 1);
       auto& range = *Schedules(set).add_reserved_range();
       range.set_start(3);
       range.set_end(3);
       Schedules(set).add_reserved_name("SCHEDULE_INTERLEAVED_1F1B");
     },
     ""},
    {"EnumValueRenamed",
     [](auto& set) { Schedules(set).mutable_value(3)->set_name("SCHEDULE_OTHER"); },
     "SCHEDULE_INTERLEAVED_1F1B = 3 has another name: SCHEDULE_OTHER"},
    {"EnumRemoved", [](auto& set) { Schedules(set).set_name("Order"); },
     "meshwright.costmodel.v1.Schedule was removed"},
    {"MethodRemoved", [](auto& set) { Tuning(set).mutable_method()->DeleteSubrange(0, 1); },
     "meshwright.v1.TuningService.CreateStudy was removed"},
    {"MethodAnswersOtherwise",
     [](auto& set) { Tuning(set).mutable_method(0)->set_output_type(".meshwright.v1.Study"); },
     "TuningService.CreateStudy has another response: .meshwright.v1.Study, was"},
    {"MethodStreams", [](auto& set) { Tuning(set).mutable_method(0)->set_server_streaming(true); },
     "TuningService.CreateStudy has another response stream: true, was false"},
    {"ServiceRemoved", [](auto& set) { Tuning(set).set_name("Studies"); },
     "meshwright.v1.TuningService was removed"},
    {"AllIsAdded",
     [](auto& set) {
       FieldDescriptorProto& field = *Plan(set).add_field();
       field.set_name("shiny");
       field.set_number(1000);
       Schedules(set).add_value()->set_number(9);
       Tuning(set).add_method()->set_name("Shine");
       set.mutable_file(0)->add_message_type()->set_name("Shiny");
       set.mutable_file(0)->add_service()->set_name("ShinyService");
     },
     ""},
};

class CompatibilityTest : public testing::TestWithParam<Mutation> {};

TEST_P(CompatibilityTest, NamesWhatIsBroken) {
  FileDescriptorSet mutated = Current();
  GetParam().mutate(mutated);
  const std::vector<std::string> broken = BrokenBy(Current(), mutated);
  if (GetParam().broken.empty()) {
    EXPECT_THAT(broken, IsEmpty());
  } else {
    EXPECT_THAT(broken, ElementsAre(HasSubstr(GetParam().broken)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CompatibilityTest, testing::ValuesIn(kMutations),
                         [](const auto& row) { return row.param.name; });

}  // namespace

// Writes the current schema as the new baseline.
int UpdateBaseline() {
  std::ofstream file(kBaseline, std::ios::binary);
  file << TextOf(Current());
  return file.flush() ? 0 : 1;
}

}  // namespace meshwright

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool updates = argc > 1 && std::string_view(argv[1]) == "--update_baseline";
  return updates ? meshwright::UpdateBaseline() : RUN_ALL_TESTS();
}
