#include "server/tuner/answers/variants.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Returns TinyQuestion on H100, which has 8-bit units, with these precisions open.
StudyRequest Open(const std::vector<std::string>& precisions) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
  request.dimensions = {{.name = "precision", .values = precisions}};
  return request;
}

std::vector<WorkloadSetting> With(const std::string& precision) {
  return {{.field = "precision", .value = precision}};
}

StudyResult Result(const StudyRequest& request) {
  return std::get<StudyResult>(RunStudy(request, Known(), {}).value());
}

// An open precision gives what two separate questions would have answered.
TEST(VariantsTest, TheBestOfAllPrecisions) {
  const StudyResult both = Result(Open({"bf16", "fp32"}));
  StudyRequest stated = Open({});
  stated.dimensions.clear();
  stated.question.workload.precision = Precision::kBf16;
  const StudyResult bf16 = Result(stated);
  stated.question.workload.precision = Precision::kFp32;
  const StudyResult fp32 = Result(stated);
  ASSERT_FALSE(both.plans.empty());
  EXPECT_EQ(both.plans.size(), 5U);
  EXPECT_EQ(both.plans.front().settings, With("bf16"));
  EXPECT_EQ(both.plans.front().plan, bf16.plans.front().plan);
  EXPECT_EQ(both.plans.front().estimate, bf16.plans.front().estimate);
  for (std::size_t i = 1; i < both.plans.size(); ++i) {
    EXPECT_LE(both.plans[i - 1].estimate.step_time, both.plans[i].estimate.step_time);
    EXPECT_EQ(both.plans[i].settings.size(), 1U);
  }
  EXPECT_EQ(both.search.space_count, bf16.search.space_count + fp32.search.space_count);
  // The plans of both compete for the fastest, and defaults that both apply are listed once.
  double sum = 0;
  for (const RankedPlan& ranked : both.plans) sum += ranked.fastest_probability.value();
  EXPECT_NEAR(sum, 1, 1e-9);
  for (const AppliedDefault& applied : bf16.applied_defaults) {
    const bool is_common = std::ranges::count(fp32.applied_defaults, applied) == 1;
    if (is_common) {
      EXPECT_EQ(std::ranges::count(both.applied_defaults, applied), 1) << applied.field;
    }
  }
  EXPECT_TRUE(both.search.complete);
  EXPECT_EQ(both.search.optimality_gap, 0);
}

// Each precision is a job of its own: bf16 runs took the modelled time, fp32 runs half of it.
TEST(VariantsTest, EachLeansOnItsOwnHistory) {
  const auto read = [](const Problem& problem) -> absl::StatusOr<StoreHistory> {
    HistoryRow row = {.question = Open({}).question, .plan = {.tensor_parallel = 2}};
    row.question.workload.precision = problem.workload.precision;
    const double ratio = problem.workload.precision == Precision::kFp32 ? 0.5 : 1;
    row.step_time = EvaluatePlan({row.question, row.plan}, Known(), {})->step_time * ratio;
    row = ResolvedRow(std::move(row));
    return StoreHistory{.rows = Shared({row, row, row, row})};
  };
  const StudyControl control = {.history = {.sequence = 4, .read = read}};
  const auto result = [&control](const StudyRequest& request) {
    return std::get<StudyResult>(RunStudy(request, Known(), control).value());
  };
  StudyRequest open = Open({"bf16", "fp32"});
  open.plan_count = 1000;
  const StudyResult both = result(open);
  for (const Precision precision : {Precision::kBf16, Precision::kFp32}) {
    StudyRequest stated = open;
    stated.dimensions.clear();
    stated.question.workload.precision = precision;
    const StudyResult alone = result(stated);
    const auto first =
        std::ranges::find(both.plans, With(std::string(Word(precision))), &RankedPlan::settings);
    ASSERT_NE(first, both.plans.end());
    EXPECT_EQ(first->estimate, alone.plans.front().estimate);
    const bool is_best = first == both.plans.begin();
    EXPECT_EQ(both.calibration == alone.calibration, is_best) << Word(precision);
  }
}

TEST(VariantsTest, PlansOfAStatedPrecisionNameNone) {
  StudyRequest request = Open({});
  request.dimensions.clear();
  EXPECT_TRUE(Result(request).plans.front().settings.empty());
}

// Other dimensions are narrowed as usual.
TEST(VariantsTest, BesideOtherDimensions) {
  StudyRequest request = Open({"fp8", "bf16"});
  request.dimensions.push_back({.name = "tensor_parallel", .values = {"2"}});
  const StudyResult result = Result(request);
  ASSERT_FALSE(result.plans.empty());
  for (const RankedPlan& ranked : result.plans) {
    EXPECT_EQ(ranked.plan.tensor_parallel, 2);
  }
}

// Returns TinyQuestion under Megatron-Core with these settings open.
StudyRequest OpenSettings(std::vector<DimensionRequest> settings) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.workload.framework_name = "megatron-core";
  request.dimensions = std::move(settings);
  return request;
}

// Every combination is searched, and the answer is that of the best one.
TEST(VariantsTest, TheBestOfAllCombinations) {
  const std::vector<std::string> truths = {"false", "true"};
  const std::vector<std::string> types = {"fp32", "bf16"};
  StudyRequest open = OpenSettings({{.name = "tensor_parallel", .values = {"2"}},
                                    {.name = "overlap.tensor_parallel", .values = truths},
                                    {.name = "gradient_dtype", .values = types}});
  open.plan_count = 1000;
  const StudyResult all = Result(open);
  Seconds least = all.model_optimum->estimate.step_time;
  int seen = 0;
  for (const std::string& overlaps : truths) {
    for (const std::string& type : types) {
      StudyRequest one = open;
      one.dimensions.resize(1);
      one.question.workload.overlap.tensor_parallel = overlaps == "true";
      one.question.workload.gradient_dtype = ParseChoice<GradientDtype>(type);
      const StudyResult alone = Result(one);
      const Seconds time = alone.model_optimum->estimate.step_time;
      EXPECT_GE(time, least);
      // The table of settings has the types first, however they are asked for.
      const std::vector<WorkloadSetting> settings = {
          {.field = "gradient_dtype", .value = type},
          {.field = "overlap.tensor_parallel", .value = overlaps}};
      const auto own = std::ranges::find_if(all.plans, [&](const RankedPlan& ranked) {
        return ranked.settings == settings && ranked.plan == alone.plans.front().plan;
      });
      ASSERT_NE(own, all.plans.end());
      EXPECT_EQ(own->estimate, alone.plans.front().estimate);
      // The launch text has what was chosen.
      const std::string& text = own->exports.at("megatron-core").text;
      EXPECT_EQ(text.find("--tp-comm-overlap") != std::string::npos, overlaps == "true") << text;
      EXPECT_EQ(text.find("--grad-reduce-in-bf16") != std::string::npos, type == "bf16") << text;
      if (time == least) ++seen;
    }
  }
  EXPECT_GE(seen, 1);
}

// A switch without any effect stays as the framework has it, however its values are listed.
TEST(VariantsTest, ATieKeepsTheFrameworksSetting) {
  StudyRequest usual = OpenSettings({{.name = "pipeline_parallel", .values = {"1"}}});
  const bool is_on = ResolveStudy(usual, Known())->problem.workload.overlap.pipeline_p2p;
  for (const std::vector<std::string>& values :
       {std::vector<std::string>{"true", "false"}, {"false", "true"}}) {
    StudyRequest open = usual;
    open.dimensions.push_back({.name = "overlap.pipeline_p2p", .values = values});
    const StudyResult answer = Result(open);
    const RankedPlan& first = answer.plans.front();
    const std::vector<WorkloadSetting> kept = {
        {.field = "overlap.pipeline_p2p", .value = is_on ? "true" : "false"}};
    EXPECT_EQ(first.settings, kept);
    EXPECT_THAT(answer.recommendation->reason,
                testing::StartsWith(
                    fmt::format("Among plans with overlap.pipeline_p2p {}: ", kept.front().value)));
    EXPECT_EQ(first.plan, Result(usual).plans.front().plan);
  }
}

// A plan on which the setting has no effect is listed once, with the framework's value.
TEST(VariantsTest, APlanIsListedOnce) {
  StudyRequest open = OpenSettings({{.name = "pipeline_parallel", .values = {"1"}},
                                    {.name = "overlap.pipeline_p2p", .values = {"false", "true"}}});
  open.plan_count = 1000;
  const std::vector<RankedPlan> plans = Result(open).plans;
  for (const RankedPlan& ranked : plans) {
    EXPECT_EQ(ranked.settings, plans.front().settings);
    EXPECT_EQ(std::ranges::count(plans, ranked.plan, &RankedPlan::plan), 1);
  }
}

// The gradients' usual type follows the precision, so fp16 with fp16 gradients changes one setting
// of Megatron-DeepSpeed, and with fp32 two.
TEST(VariantsTest, UsualSettingsFollowThePrecision) {
  StudyRequest open = OpenSettings({{.name = "precision", .values = {"bf16", "fp16"}},
                                    {.name = "gradient_dtype", .values = {"fp32", "fp16"}}});
  open.question.workload.framework_name = "megatron-deepspeed";
  const auto study = ResolveStudy(open, Known());
  ASSERT_TRUE(study.ok()) << study.status();
  const auto variants = PrepareVariants(*study, Known(), {});
  ASSERT_TRUE(variants.ok()) << variants.status();
  for (const PreparedVariant& variant : *variants) {
    StudyRequest usual = open;
    usual.dimensions.clear();
    usual.question.workload.precision = ParseChoice<Precision>(variant.settings[0].value);
    const Workload own = ResolveStudy(usual, Known())->problem.workload;
    const int changes = (own.precision != study->problem.workload.precision ? 1 : 0) +
                        (Word(own.gradient_dtype) != variant.settings[1].value ? 1 : 0);
    EXPECT_EQ(variant.changed_count, changes);
  }
}

struct Bad {
  const char* name;
  StudyRequest request;
  const char* what;
};

StudyRequest Stated() {
  StudyRequest request = Open({"bf16"});
  request.question.workload.precision = Precision::kBf16;
  return request;
}

StudyRequest OldChip() {
  StudyRequest request = Open({"bf16", "fp8"});
  request.question.cluster.pools.front().chip = "nvidia-a100-sxm4-80gb";
  return request;
}

class BadSettingTest : public testing::TestWithParam<Bad> {};

TEST_P(BadSettingTest, IsNamed) {
  const auto answer = RunStudy(GetParam().request, Known(), {});
  ASSERT_FALSE(answer.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr(GetParam().what));
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadSettingTest,
    testing::Values(
        Bad{"NoWord", Open({"int8"}), "\"int8\"; must be one of bf16, fp16, fp8, fp32"},
        Bad{"Twice", Open({"bf16", "bf16"}), "states a value twice"},
        Bad{"Nothing", Open({}), "states neither values nor a range"},
        Bad{"Stated", Stated(), "the workload states bf16"}, Bad{"NotOfTheChip", OldChip(), "fp8"},
        Bad{"NoTruth", OpenSettings({{.name = "overlap.tensor_parallel", .values = {"yes"}}}),
            "\"yes\"; must be one of false, true"},
        Bad{"TooMany",
            OpenSettings({{.name = "precision", .values = {"bf16", "fp16", "fp32"}},
                          {.name = "gradient_dtype", .values = {"fp32", "bf16"}},
                          {.name = "overlap.tensor_parallel", .values = {"false", "true"}},
                          {.name = "overlap.pipeline_p2p", .values = {"false", "true"}}}),
            "24 combinations of settings of the workload; must be <= 16"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
