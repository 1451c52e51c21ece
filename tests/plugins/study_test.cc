#include "server/tuner/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/status.h"
#include "server/plugins/model_shelf.h"
#include "server/plugins/sanitizer.h"
#include "tests/plugins/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

using testing::IsEmpty;

absl::StatusOr<StudyAnswer> Tune(ModelShelf& shelf, const std::string& name, bool allow_fallback) {
  StudyControl control;
  control.open_model = [&shelf](std::string_view model, const Problem& problem) {
    return shelf.OpenModel(model, problem);
  };
  return RunStudy({.question = TinyQuestion(),
                   .cost_model = CostModelRequest{.name = name, .allow_fallback = allow_fallback}},
                  Known(), control);
}

std::unique_ptr<ModelShelf> Shelf(const TemporaryFolder& folder, const ModelManifest& manifest) {
  folder.Write("model.json", ManifestText(manifest));
  return ModelShelf::Open(folder.path(), QuickPolicy()).value();
}

TEST(StudyWithModelTest, TemplatesAnswer) {
  for (const ModelManifest& manifest : {CppTemplate(), CTemplate()}) {
    const TemporaryFolder folder;
    const auto shelf = Shelf(folder, manifest);
    const auto answer = Tune(*shelf, manifest.name, false);
    ASSERT_TRUE(answer.ok()) << answer.status();
    const StudyResult& result = std::get<StudyResult>(*answer);
    EXPECT_TRUE(result.search.complete);
    for (const RankedPlan& plan : result.plans) {
      EXPECT_EQ(plan.estimate.cost_model->name, manifest.name);
      EXPECT_EQ(plan.estimate.cost_model->checksum, manifest.sha256);
    }
  }
}

// Behaviour 12 of the acceptance list: the study ends, with plans or with a reason, and nothing is
// left behind.
TEST(StudyWithModelTest, EveryBadModelIsContained) {
  for (const std::string mode :
       {"crash_at_start", "crash_on_candidate", "hang_on_candidate", "crash", "lie_nan",
        "lie_negative", "lie_fast", "lie_memory", "wrong_units", "wrong_shape", "wrong_version",
        "garbage", "leak", "flood", "orphans"}) {
    if (kHasAddressSanitizer && mode == "leak") continue;  // nothing would end it
    const TemporaryFolder folder;
    FailurePolicy policy = QuickPolicy();
    policy.start_timeout = std::chrono::milliseconds(2'000);
    folder.Write("model.json", ManifestText(BadModel(mode)));
    {
      const auto shelf = ModelShelf::Open(folder.path(), policy).value();
      for (const bool allow_fallback : {false, true}) {
        const auto answer = Tune(*shelf, "bad", allow_fallback);
        if (answer.ok()) {
          EXPECT_FALSE(std::get<StudyResult>(*answer).plans.empty()) << mode;
        } else {
          EXPECT_THAT(Reason(answer.status()), testing::StartsWith("COST_MODEL_")) << mode;
        }
      }
    }
    EXPECT_THAT(ProcessesLeft("bad_cost_model"), IsEmpty()) << mode;
  }
}

}  // namespace
}  // namespace meshwright
