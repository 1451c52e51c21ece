#include "server/plugins/wire/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/tuner/question/plan_model.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kChip[] = "nvidia-a100-sxm4-80gb";  // that of SmallProblem

const std::vector<CalibrationTest>& TwoTests() {
  static const auto* const tests = new std::vector<CalibrationTest>{
      {.name = "rate", .what = "a rate", .unit = "flops_per_second"},
      {.name = "time", .what = "a time", .unit = "seconds"}};
  return *tests;
}

TEST(MeasurementsTest, AreReadInTheOrderOfTheTests) {
  const auto read = ReadMeasurements(R"({"time": 2, "rate": 1.5e12})", TwoTests());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_THAT(*read, SizeIs(2));
  EXPECT_EQ(read->front().name, "rate");
  EXPECT_EQ(read->front().value, 1.5e12);
}

TEST(MeasurementsTest, OneErrorNamesAllThatIsWrong) {
  const absl::Status wrong =
      ReadMeasurements(R"({"rate": "fast", "tiem": 2})", TwoTests()).status();
  std::vector<std::string> fields;
  for (const FieldViolation& violation : FieldViolations(wrong)) fields.push_back(violation.field);
  EXPECT_THAT(fields, ElementsAre("measurements.tiem", "measurements.rate", "measurements.time"));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("\"fast\"; must be a finite number"));
  const absl::Status broken = ReadMeasurements("{\n1", TwoTests()).status();
  EXPECT_THAT(std::string(broken.message()), HasSubstr("line 2, column 1"));
  for (const std::string text : {"[]", "{", R"({"rate": 1e999, "time": 1})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ReadMeasurements(text, TwoTests()).status())) << text;
  }
}

StoredCalibration Stored(const ModelManifest& manifest, const std::string& bytes) {
  return {.model = manifest.name,
          .model_version = "1.0.0",
          .checksum = manifest.sha256,
          .chip = kChip,
          .fitted = {.parameters = {.version = "3", .bytes = bytes}}};
}

absl::StatusOr<std::string> Store(const std::string& folder, const StoredCalibration& calibration) {
  ASSIGN_OR_RETURN(const ModelFile file, FileOf(folder, calibration));
  std::filesystem::create_directories(std::filesystem::path(file.path).parent_path());
  std::ofstream(file.path) << file.text;
  return file.path;
}

TEST(StoredCalibrationTest, ComesBackAsItWas) {
  const TemporaryFolder folder;
  std::string bytes(257, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  StoredCalibration stored = Stored({.name = "a", .sha256 = "cd"}, bytes);
  stored.fitted.held_out_error_ratio = 0.03;
  const auto path = Store(folder.path(), stored);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, folder.path() + "/calibrations/a." + kChip + ".json");
  EXPECT_THAT(CalibratedChips(folder.path(), "a"), ElementsAre(kChip));
  EXPECT_THAT(CalibratedChips(folder.path(), "b"), IsEmpty());
  const auto back = LoadCalibration(folder.path(), "a", kChip);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_TRUE(back->has_value());
  EXPECT_EQ((*back)->checksum, "cd");
  EXPECT_EQ((*back)->fitted.parameters.bytes, bytes);
  EXPECT_EQ((*back)->fitted.parameters.version, "3");
  EXPECT_EQ((*back)->fitted.held_out_error_ratio, 0.03);
  EXPECT_FALSE(LoadCalibration(folder.path(), "a", "another")->has_value());
  EXPECT_FALSE(LoadCalibration(folder.path(), "../a", kChip)->has_value());
}

TEST(StoredCalibrationTest, WhatCannotBeUsedSaysWhy) {
  const TemporaryFolder folder;
  const auto stored = Store(folder.path(), Stored({.name = "a", .sha256 = "cd"}, "one"));
  ASSERT_TRUE(stored.ok()) << stored.status();
  const std::string good = ReadFile(*stored);
  const auto with_zeros = [](std::size_t count) {
    return R"({"parameters": ")" + std::string(2 * count, '0') + "\"}";
  };
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not a JSON object"},
           {R"({"parameters": "?"})", "must be hexadecimal digits"},
           {with_zeros(kMaxParameterBytes + 1), "must be at most 1048576"},
           {with_zeros(2 * kMaxParameterBytes), "too large"},
           {R"({"parameters": "00ff", "model": "b"})", "of another model"}}) {
    std::ofstream(*stored) << text;
    const absl::Status status = LoadCalibration(folder.path(), "a", kChip).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(StoredCalibrationTest, ItsNameDistinguishesParameters) {
  EXPECT_EQ(CalibrationName({}), "");
  // SHA-256 of "abc" begins ba7816bf8f01 (FIPS 180-2, B.1).
  EXPECT_EQ(CalibrationName({.version = "3", .bytes = "abc"}), "3+ba7816bf8f01");
}

// Returns the parameters that the C++ template fits to these rates.
std::string Fitted(double matmul, double memory) {
  const auto model = std::make_shared<RunningModel>(CppTemplate(), QuickPolicy(), ModelEvent());
  const std::vector<TestMeasurement> measured = {{.name = "matmul_bf16", .value = matmul},
                                                 {.name = "memory_copy", .value = memory}};
  return model->FitCalibration(kChip, measured, {}).value().parameters.bytes;
}

// An A100 computes 312e12 FLOP/s in bf16 and reads 2.039e12 bytes/s by its data sheet.
constexpr double kSlowMatmul = 93.6e12;  // 0.3 of it; the template takes 0.6 unless told
constexpr double kMemory = 1.2e12;

TEST(CalibratedModelTest, IsAskedWithItsParametersAndSaysSo) {
  const TemporaryFolder folder;
  const auto registry = RegistryWith(folder, CppTemplate());
  const std::vector<ParallelPlan> plans = SmallPlans(4);
  const auto plain = registry->OpenModel("roofline-cpp", SmallProblem());
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ((*plain)->version().calibration, "");
  const StoredCalibration stored = Stored(CppTemplate(), Fitted(kSlowMatmul, kMemory));
  ASSERT_TRUE(Store(folder.path(), stored).ok());
  const auto calibrated = registry->OpenModel("roofline-cpp", SmallProblem());  // from the next on
  ASSERT_TRUE(calibrated.ok()) << calibrated.status();
  EXPECT_EQ((*calibrated)->version().calibration, CalibrationName(stored.fitted.parameters));
  EXPECT_NE((*calibrated)->version(), (*plain)->version());
  EXPECT_THAT((*calibrated)->warnings(), IsEmpty());
  const auto slow = (*calibrated)->Estimate(plans, {.with_breakdown = true});
  const auto fast = (*plain)->Estimate(plans, {.with_breakdown = true});
  ASSERT_TRUE(slow.ok() && fast.ok());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if ((*fast)[i].verdict != PlanVerdict::kOk) continue;
    ASSERT_EQ((*slow)[i].breakdown.front().first, "matmul");
    EXPECT_NEAR((*slow)[i].breakdown.front().second / (*fast)[i].breakdown.front().second, 2, 1e-9);
  }
}

TEST(CalibratedModelTest, ThatOfAnotherProgramIsNotUsed) {
  const TemporaryFolder folder;
  std::vector<std::string> events;
  const auto registry =
      RegistryWith(folder, CppTemplate(), [&](std::string_view event, const std::string& what) {
        if (event == "not_calibrated") events.push_back(what);
      });
  StoredCalibration stored = Stored(CppTemplate(), Fitted(kSlowMatmul, kMemory));
  stored.checksum = std::string(64, '0');
  ASSERT_TRUE(Store(folder.path(), stored).ok());
  const auto opened = registry->OpenModel("roofline-cpp", SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->version().calibration, "");
  EXPECT_THAT((*opened)->warnings(),
              ElementsAre(HasSubstr("fitted by a model with another SHA-256")));
  EXPECT_THAT(events, ElementsAre(HasSubstr("model=roofline-cpp")));
}

// The model itself refuses the parameters, says so, and survives.
TEST(CalibratedModelTest, GarbageIsRefused) {
  const auto model = std::make_shared<RunningModel>(CppTemplate(), QuickPolicy(), ModelEvent());
  const CalibrationParameters garbage = {.version = "1", .bytes = "\x01garbage"};
  const absl::Status refused = MakePlanModel(model, SmallProblem(), garbage).status();
  EXPECT_EQ(Reason(refused), "COST_MODEL_REFUSED");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no parameters of this model"));
  EXPECT_TRUE(MakePlanModel(model, SmallProblem()).ok());
}

TEST(CalibratedModelTest, WhatAModelFitsIsBounded) {
  const TestMeasurement measured = {.name = "rate", .value = 1};
  for (const std::string mode : {"calibration_large", "calibration_empty"}) {
    RunningModel model(BadModel(mode), QuickPolicy(), ModelEvent());
    const absl::Status status = model.FitCalibration(kChip, std::span(&measured, 1), {}).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must be 1 to 1048576")) << mode;
  }
  RunningModel crashing(BadModel("calibration_crash"), QuickPolicy(), ModelEvent());
  EXPECT_EQ(Reason(crashing.FitCalibration(kChip, std::span(&measured, 1), {}).status()),
            "COST_MODEL_FAILED");
  RunningModel lacking(BadModel("good"), QuickPolicy(), ModelEvent());
  EXPECT_TRUE(absl::IsUnimplemented(lacking.ListCalibrationTests(kChip, {}).status()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
