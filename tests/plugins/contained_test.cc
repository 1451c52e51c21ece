// Models are killed, hang and lie, over and over, beside studies that go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/events/moment.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::IsEmpty;
using Times = std::map<ParallelPlan, Seconds>;

// The ways in which the bad model fails (bad_model.cc).
constexpr struct {
  int tensor_parallel = 4;
  int micro_batch_size = 2;
} kPoison;

int Studies() {
  const char* const asked = std::getenv("MESHWRIGHT_MODEL_STUDIES");
  return asked == nullptr ? 8 : std::atoi(asked);
}

// Returns all plans of a small space with their times, without those on which the bad model fails;
// nullopt if the study ends with a reason.
std::optional<Times> Tune(const std::string& mode, const TemporaryFolder& folder) {
  const ModelManifest manifest = BadModel(mode);
  FailurePolicy policy = QuickPolicy();
  policy.most_failures = 1'000'000;
  folder.Write("model.json", ManifestText(manifest));
  const auto registry = ModelRegistry::Open(folder.path(), policy).value();
  StudyControl control;
  control.open_model = [&registry](std::string_view model, const Problem& problem,
                                   const std::stop_token& cancel) {
    return registry->OpenModel(model, problem, cancel);
  };
  const auto answer = RunStudy({.question = TinyQuestion(),
                                .plan_count = 10'000,
                                .dimensions = {{.name = "zero_stage", .values = {"0"}},
                                               {.name = "recompute", .values = {"none"}},
                                               {.name = "pipeline_parallel", .values = {"1"}}},
                                .cost_model = CostModelRequest{.name = manifest.name}},
                               Known(), control);
  if (!answer.ok()) {
    EXPECT_THAT(Reason(answer.status()), testing::StartsWith("COST_MODEL_")) << answer.status();
    return std::nullopt;
  }
  Times times;
  for (const RankedPlan& ranked : std::get<StudyResult>(*answer).plans) {
    times[ranked.plan] = ranked.estimate.step_time;
  }
  return times;
}

// Kills the models of a folder, again and again, as long as it lives.
class Killer {
 public:
  explicit Killer(std::string folder)
      : thread_([folder = std::move(folder)](const std::stop_token& stop) {
          for (int i = 1; !stop.stop_requested(); ++i) {
            PassRounds(i * 5'000'000L);  // longer each time, so that some come through
            for (const int pid : ProcessesNow(folder)) kill(pid, SIGKILL);
          }
        }) {}

 private:
  std::jthread thread_;
};

// Every answered plan has the good model's time, the others are those on which the model fails, and
// no process stays. A model that is killed anywhere may fail a study, or any plan.
// MESHWRIGHT_MODEL_STUDIES=1000: docs/vendor_models/isolation.md.
TEST(ContainedTest, StudiesEndWithEveryOtherPlan) {
  const ModelFolders folders;
  const TemporaryFolder folder;
  const Times good = Tune("good", folder).value();
  const std::string modes[] = {"killed", "hang_on_candidate", "lie_fast", "lie_nan",
                               "crash_on_candidate"};
  for (int i = 0; i < Studies(); ++i) {
    const std::string& mode = modes[static_cast<std::size_t>(i) % std::size(modes)];
    const bool is_killed = mode == "killed";
    std::optional<Killer> killer;
    if (is_killed) killer.emplace(folders.path());
    const std::optional<Times> times = Tune(is_killed ? "good" : mode, folder);
    killer.reset();
    ASSERT_THAT(ProcessesLeft(folders.path()), IsEmpty()) << mode;
    ASSERT_TRUE(times.has_value() || is_killed) << mode;
    if (!times.has_value()) continue;
    // The answer holds a fixed number of the fastest plans: a missing plan lets another in.
    for (const auto& [plan, time] : good) {
      const bool is_poison = plan.tensor_parallel == kPoison.tensor_parallel &&
                             plan.micro_batch_size == kPoison.micro_batch_size;
      const auto found = times->find(plan);
      const bool is_found = found != times->end();
      ASSERT_TRUE(is_killed || is_found != is_poison) << mode << ": " << MakePlanKey(plan).text;
      if (is_found) {
        ASSERT_EQ(found->second, time) << mode;
      }
    }
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
