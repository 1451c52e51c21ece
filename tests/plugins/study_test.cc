#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meshwright/costmodel/v1/costmodel.pb.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/process/sanitizer.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::IsEmpty;

absl::StatusOr<StudyAnswer> Tune(ModelRegistry& registry, const std::string& name,
                                 bool allow_fallback) {
  StudyControl control;
  control.open_model = [&registry](std::string_view model, const Problem& problem,
                                   const std::stop_token& cancel) {
    return registry.OpenModel(model, problem, cancel);
  };
  return RunStudy({.question = TinyQuestion(),
                   .cost_model = CostModelRequest{.name = name, .allow_fallback = allow_fallback}},
                  Known(), control);
}

TEST(StudyWithModelTest, TemplatesAnswer) {
  for (const ModelManifest& manifest : {CppTemplate(), CTemplate()}) {
    const TemporaryFolder folder;
    const auto registry = RegistryWith(folder, manifest);
    const auto answer = Tune(*registry, manifest.name, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    const StudyResult& result = std::get<StudyResult>(*answer);
    EXPECT_TRUE(result.search.complete);
    for (const RankedPlan& plan : result.plans) {
      EXPECT_EQ(plan.estimate.cost_model->name, manifest.name);
      EXPECT_EQ(plan.estimate.cost_model->checksum, manifest.sha256);
    }
  }
}

// The contract's limit is in the middle of a character.
TEST(StudyWithModelTest, ALongReasonIsReadBack) {
  const TemporaryFolder folder;
  const auto registry = RegistryWith(folder, BadModel("chinese"));
  const auto answer = Tune(*registry, "bad", false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::string warning;
  for (const std::string& text : std::get<StudyResult>(*answer).warnings) {
    if (text.find("\u5185\u5b58") != std::string::npos) warning = text;
  }
  // 133 characters of three bytes are 399 of 400: the last is the first of a pair.
  EXPECT_THAT(warning, testing::EndsWith("\u5b58\u5185"));
  costmodel::v1::CandidateReason message;
  message.set_text(warning);
  costmodel::v1::CandidateReason read;
  EXPECT_TRUE(read.ParseFromString(message.SerializeAsString()));
}

TEST(StudyWithModelTest, WarningsOfTheModelAreTheAnswers) {
  const TemporaryFolder folder;
  const auto registry = RegistryWith(folder, BadModel("warnings"));
  const auto answer = Tune(*registry, "bad", false);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(std::get<StudyResult>(*answer).warnings,
              testing::Contains("cost model bad:  [2Jassumes much, 15"));
}

// The model claims to be deterministic; the best plans are asked for twice.
TEST(StudyWithModelTest, AModelThatChangesItsAnswersIsNamed) {
  const TemporaryFolder folder;
  for (const bool changes : {false, true}) {
    const auto registry = RegistryWith(folder, BadModel(changes ? "nondeterministic" : "good"));
    const auto answer = Tune(*registry, "bad", false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_FALSE(std::get<StudyResult>(*answer).plans.empty());
    const auto is_named = testing::Contains(testing::HasSubstr("says that it is deterministic"));
    for (const RankedPlan& plan : std::get<StudyResult>(*answer).plans) {
      if (changes) {
        EXPECT_THAT(plan.estimate.warnings, is_named);
      } else {
        EXPECT_THAT(plan.estimate.warnings, testing::Not(is_named));
      }
    }
  }
}

// Takes twice as long in every call with a breakdown.
class DriftingModel final : public PlanModel {
 public:
  DriftingModel() : PlanModel({.name = "drifting", .version = "1"}) {}
  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& options) override {
    std::vector<PlanFigures> figures;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const Seconds time(options.with_breakdown ? 2.0 : 1.0);
      figures.push_back({.verdict = PlanVerdict::kOk,
                         .step_time = time,
                         .step_time_low = 0.9 * time,
                         .step_time_high = 1.2 * time,
                         .breakdown = {{"fixed", 0.5 * time}, {"own", 0.5 * time}}});
    }
    return figures;
  }
};

TEST(StudyWithModelTest, AnIntervalHoldsTheTimeThatAPlanWasRankedBy) {
  StudyControl control;
  control.open_model =
      [](std::string_view /*name*/, const Problem& /*problem*/,
         const std::stop_token& /*cancel*/) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
    return std::make_unique<DriftingModel>();
  };
  const auto answer =
      RunStudy({.question = TinyQuestion(), .cost_model = CostModelRequest{.name = "drifting"}},
               Known(), control);
  ASSERT_TRUE(answer.ok()) << answer.status();
  for (const RankedPlan& plan : std::get<StudyResult>(*answer).plans) {
    EXPECT_DOUBLE_EQ(plan.estimate.step_time.count(), 1.0);
    EXPECT_DOUBLE_EQ(plan.estimate.step_time_low.count(), 0.9);
    EXPECT_DOUBLE_EQ(plan.estimate.step_time_high.count(), 1.2);
    Seconds sum(0);
    for (const Seconds part : plan.estimate.breakdown) sum += part;
    EXPECT_DOUBLE_EQ(sum.count(), 1.0);
  }
}

// Behaviour 12 of the acceptance list: the study ends with plans or a reason, and leaves nothing
// behind.
TEST(StudyWithModelTest, EveryBadModelIsContained) {
  for (const std::string mode :
       {"crash_at_start", "crash_on_candidate", "hang_on_candidate", "crash", "lie_nan",
        "lie_negative", "lie_fast", "lie_memory", "wrong_units", "wrong_shape", "wrong_version",
        "garbage", "leak", "flood", "orphans"}) {
    if (kHasAddressSanitizer && mode == "leak") continue;  // nothing would end it
    const TemporaryFolder folder;
    const ModelFolders folders;
    FailurePolicy policy = QuickPolicy();
    // It never serves, so there is no need to wait for that.
    if (mode == "garbage") policy.start_timeout = std::chrono::milliseconds(2'000);
    folder.Write("model.json", ManifestText(BadModel(mode)));
    {
      const auto registry = ModelRegistry::Open(folder.path(), policy).value();
      for (const bool allow_fallback : {false, true}) {
        const auto answer = Tune(*registry, "bad", allow_fallback);
        if (answer.ok()) {
          EXPECT_FALSE(std::get<StudyResult>(*answer).plans.empty()) << mode;
        } else {
          EXPECT_THAT(Reason(answer.status()), testing::StartsWith("COST_MODEL_")) << mode;
        }
      }
    }
    EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty()) << mode;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
