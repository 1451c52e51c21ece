#include "server/plugins/running_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/plugins/manifest.h"
#include "server/plugins/model_registry.h"
#include "server/process/sanitizer.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "tests/events/moment.h"
#include "tests/events/wait_for.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// Longer than any test may run.
constexpr std::chrono::hours kForever(1);

// Waits until a bad model hangs whose folder is below this one; returns false if none does.
bool Hangs(const std::string& folders) {
  return WaitFor([&] {
    using Entries = std::filesystem::recursive_directory_iterator;
    std::error_code error;  // folders come and go
    for (Entries entry(folders, error); !error && entry != Entries(); entry.increment(error)) {
      if (entry->path().filename() == "begun") return true;
    }
    return false;
  });
}

// Waits until the thread sleeps, as it does when it waits for a lock or an answer.
bool Sleeps(pid_t thread) {
  return WaitFor([&] {
    std::ifstream stat(fmt::format("/proc/self/task/{}/stat", thread));
    std::string text;
    std::getline(stat, text);
    const std::size_t name_end = text.rfind(") ");
    return name_end != std::string::npos && text[name_end + 2] == 'S';
  });
}

std::shared_ptr<RunningModel> Make(const ModelManifest& manifest,
                                   const FailurePolicy& policy = QuickPolicy()) {
  return std::make_shared<RunningModel>(manifest, policy, ModelEvent());
}

bool IsPoison(const ParallelPlan& plan) {
  return plan.tensor_parallel == 4 && plan.micro_batch_size == 2;
}

struct Tally {
  std::size_t ok = 0;
  std::size_t bad = 0;  // number of poison plans
  std::size_t spoilt = 0;
};

Tally Count(const std::vector<ParallelPlan>& plans, const std::vector<PlanFigures>& figures) {
  Tally tally;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (figures[i].verdict == PlanVerdict::kOk) {
      ++tally.ok;
    } else if (IsPoison(plans[i])) {
      ++tally.bad;
    } else {
      ++tally.spoilt;
    }
  }
  return tally;
}

// Returns plans, some of which are poison.
std::vector<ParallelPlan> WithPoison(std::size_t count, std::size_t poison_count) {
  std::vector<ParallelPlan> plans;
  for (const ParallelPlan& plan : SmallPlans(2 * count)) {
    if (IsPoison(plan)) {
      if (poison_count == 0) continue;
      --poison_count;
    }
    if (plans.size() < count) plans.push_back(plan);
  }
  return plans;
}

struct Case {
  std::string name;
  std::size_t bad;  // poison plans that are errors; the others must be answered
  std::string reason;
};

// Faults with one plan of 1,500, in two batches.
const Case kCases[] = {
    {"good", 0, ""},
    {"crash_on_candidate", 1, "the model crashed: signal 6"},
    {"hang_on_candidate", 1, "the model hung"},
    {"lie_nan", 1, "cannot be true: its step time is nan"},
    {"lie_negative", 1, "cannot be true: its step time is -"},
    {"lie_fast", 1, "nominal peak needs"},
    {"flood", 0, ""},
    {"orphans", 0, ""},
    {"slow", 0, ""},
    {"crash_third_batch", 0, ""},
};

class ContainedTest : public testing::TestWithParam<Case> {};

TEST_P(ContainedTest, OtherPlansKeepTheirEstimates) {
  const auto model = Make(BadModel(GetParam().name));
  const std::vector<ParallelPlan> plans = WithPoison(1'500, 1);
  const auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (int i = 0; i < 2; ++i) {  // the second time the poison is known
    const auto figures = (*opened)->Estimate(plans, {});
    ASSERT_TRUE(figures.ok()) << figures.status();
    const Tally tally = Count(plans, *figures);
    EXPECT_EQ(tally.bad, GetParam().bad);
    EXPECT_EQ(tally.spoilt, 0U);
    EXPECT_EQ(tally.ok, plans.size() - GetParam().bad);
    for (const PlanFigures& figure : *figures) {
      if (figure.verdict == PlanVerdict::kOk || i > 0) continue;
      EXPECT_THAT(figure.reason, HasSubstr(GetParam().reason));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ContainedTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

// There is one more than is searched for in a batch; what is left of the batch is then not asked.
TEST(RunningModelTest, SeveralPlansOfABatchAreIsolated) {
  for (const std::size_t poison_count : {2U, 8U, 9U}) {
    const std::vector<ParallelPlan> plans = WithPoison(1'024, poison_count);
    ASSERT_EQ(static_cast<std::size_t>(std::ranges::count_if(plans, IsPoison)), poison_count);
    const auto opened = MakePlanModel(Make(BadModel("crash_on_candidate")), SmallProblem());
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto figures = (*opened)->Estimate(plans, {});
    ASSERT_TRUE(figures.ok()) << figures.status();
    const Tally tally = Count(plans, *figures);
    EXPECT_EQ(tally.bad, poison_count);
    if (poison_count <= 8) {
      EXPECT_EQ(tally.spoilt, 0U) << poison_count;
      continue;
    }
    EXPECT_GT(tally.ok, 0U);
    const auto not_asked = std::ranges::count_if(*figures, [](const PlanFigures& figure) {
      return figure.reason == "the model failed on 8 other plans of the batch";
    });
    EXPECT_EQ(static_cast<std::size_t>(not_asked), tally.spoilt + 1);
  }
}

// The first answer of each of its processes takes longer than a part may if no answer was slow: 1
// s.
TEST(RunningModelTest, WhatIsSlowToWarmIsNoHang) {
  const ModelManifest manifest = BadModel("slow_to_warm");
  std::vector<ParallelPlan> plans = WithPoison(1'024, 1);
  const auto poison = std::ranges::find_if(plans, IsPoison);
  ASSERT_NE(poison, plans.end());
  plans = {*poison, plans[0], plans[1], plans[2]};
  ASSERT_EQ(std::ranges::count_if(plans, IsPoison), 1);
  const auto opened = MakePlanModel(Make(manifest), SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto figures = (*opened)->Estimate(plans, {});
  ASSERT_TRUE(figures.ok()) << figures.status();
  const Tally tally = Count(plans, *figures);
  EXPECT_EQ(tally.ok, 3U);
  EXPECT_EQ(tally.bad, 1U);
}

TEST(RunningModelTest, AllPlansOfALyingModelAreErrors) {
  for (const std::string mode : {"lie_memory", "wrong_units"}) {
    const auto opened = MakePlanModel(Make(BadModel(mode)), SmallProblem());
    ASSERT_TRUE(opened.ok()) << opened.status();
    const auto figures = (*opened)->Estimate(SmallPlans(10), {});
    ASSERT_TRUE(figures.ok()) << figures.status();
    for (const PlanFigures& figure : *figures) {
      EXPECT_EQ(figure.verdict, PlanVerdict::kError) << mode;
      EXPECT_THAT(figure.reason, HasSubstr("cannot be true")) << mode;
    }
  }
}

struct Unusable {
  std::string name;
  std::string reason;
  std::string message;
  // Until the model is given up. It is short where the model never makes its socket, and else long
  // enough for a busy machine.
  std::chrono::milliseconds start_timeout = QuickPolicy().start_timeout;
};

const Unusable kUnusable[] = {
    {"crash_at_start", "COST_MODEL_START", "no licence found"},
    {"garbage", "COST_MODEL_START", "did not answer by gRPC there within",
     std::chrono::seconds(10)},
    {"hang_at_start", "COST_MODEL_START", "did not serve within", std::chrono::milliseconds(1'500)},
    {"wrong_version", "COST_MODEL_PROTOCOL", "protocol 9.0"},
    {"refuse", "COST_MODEL_REFUSED", "no such chip"},
    {"crash_on_context", "COST_MODEL_FAILED", "crashed"},
};

class UnusableTest : public testing::TestWithParam<Unusable> {};

TEST_P(UnusableTest, SaysWhyAndLeavesNothing) {
  const ModelFolders folders;
  FailurePolicy policy = QuickPolicy();
  policy.start_timeout = GetParam().start_timeout;
  const ModelManifest manifest = BadModel(GetParam().name);
  {
    const auto opened = MakePlanModel(Make(manifest, policy), SmallProblem());
    EXPECT_EQ(Reason(opened.status()), GetParam().reason) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(GetParam().message));
  }
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folders.path()));
}

INSTANTIATE_TEST_SUITE_P(All, UnusableTest, testing::ValuesIn(kUnusable),
                         [](const auto& row) { return row.param.name; });

TEST(RunningModelTest, IsGivenUpAfterThreeFailures) {
  const auto model = Make(BadModel("crash_at_start"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Reason(model->Start({}).status()), "COST_MODEL_START");
  }
  const absl::Status given_up = model->Start({}).status();
  EXPECT_EQ(Reason(given_up), "COST_MODEL_GIVEN_UP");
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("no licence found"));
}

TEST(RunningModelTest, AModelThatAlwaysCrashesEndsTheCall) {
  const auto opened = MakePlanModel(Make(BadModel("crash")), SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  // Its first batch is two failures, that it failed and that it failed on too many plans.
  EXPECT_EQ(Reason((*opened)->Estimate(SmallPlans(3'000), {}).status()), "COST_MODEL_GIVEN_UP");
}

TEST(RunningModelTest, WrongShapesAreAFailure) {
  const auto opened = MakePlanModel(Make(BadModel("wrong_shape")), SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto figures = (*opened)->Estimate(SmallPlans(2), {});
  ASSERT_TRUE(figures.ok()) << figures.status();
  for (const PlanFigures& figure : *figures) {
    EXPECT_EQ(figure.verdict, PlanVerdict::kError);
    EXPECT_THAT(figure.reason, HasSubstr("entries"));
  }
}

TEST(RunningModelTest, ALeakEndsTheModelAndNotTheStudy) {
  if (kHasAddressSanitizer) GTEST_SKIP() << "AddressSanitizer leaves no limit of address space";
  ModelManifest manifest = BadModel("leak");
  manifest.limits.memory_bytes = std::int64_t{2} << 30;  // a batch takes 64 MiB
  FailurePolicy policy = QuickPolicy();
  policy.most_failures = 1'000;
  const auto opened = MakePlanModel(Make(manifest, policy), SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (int i = 0; i < 40; ++i) {
    const auto figures = (*opened)->Estimate(SmallPlans(4), {});
    ASSERT_TRUE(figures.ok()) << figures.status();
    for (const PlanFigures& figure : *figures) {
      EXPECT_EQ(figure.verdict, PlanVerdict::kOk) << i << ": " << figure.reason;
    }
  }
}

TEST(RunningModelTest, ACancelOfAHungCallIsQuickAndLeavesNothing) {
  const ModelFolders folders;
  ModelManifest manifest = BadModel("hang");
  manifest.limits.batch_deadline = kForever;
  auto model = Make(manifest);
  auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(ProcessesNow(folders.path()), Not(IsEmpty()));
  std::stop_source stop;
  const std::jthread cancel([&] {
    EXPECT_TRUE(Hangs(folders.path()));
    stop.request_stop();
  });
  const auto figures = (*opened)->Estimate(SmallPlans(2), {.cancel = stop.get_token()});
  EXPECT_TRUE(absl::IsCancelled(figures.status()));
  opened->reset();
  model.reset();
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folders.path()));
}

// One process answers one call at a time; a waiting caller gets away at once.
TEST(RunningModelTest, WhoWaitsForAnothersCallCanBeCancelled) {
  const ModelFolders folders;
  ModelManifest manifest = BadModel("hang");
  manifest.limits.batch_deadline = kForever;
  const auto model = Make(manifest);
  const auto asking = MakePlanModel(model, SmallProblem());
  auto waiting = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(asking.ok() && waiting.ok()) << waiting.status();
  std::stop_source stop_asking;
  std::atomic<bool> has_turn = true;
  const std::jthread asks([&] {
    const auto figures = (*asking)->Estimate(SmallPlans(2), {.cancel = stop_asking.get_token()});
    has_turn = false;
    EXPECT_TRUE(absl::IsCancelled(figures.status()));
  });
  ASSERT_TRUE(Hangs(folders.path()));
  const std::vector<ParallelPlan> plans = SmallPlans(1);
  std::stop_source stop;
  const std::jthread cancel([&, waits = gettid()] {
    EXPECT_TRUE(Sleeps(waits));
    stop.request_stop();
  });
  const std::stop_token token = stop.get_token();
  EXPECT_TRUE(absl::IsCancelled((*waiting)->Estimate(plans, {.cancel = token}).status()));
  EXPECT_TRUE(absl::IsCancelled((*waiting)->LowerBounds(plans, token).status()));
  EXPECT_TRUE(absl::IsCancelled((*waiting)->Explain(plans.front(), token).status()));
  EXPECT_TRUE(absl::IsCancelled(MakePlanModel(model, SmallProblem(), {}, {}, token).status()));
  waiting->reset();  // its context is closed later
  EXPECT_TRUE(has_turn);
  stop_asking.request_stop();
}

TEST(RunningModelTest, AStartCanBeCancelled) {
  const ModelFolders folders;
  FailurePolicy policy = QuickPolicy();
  policy.start_timeout = kForever;
  const auto model = Make(BadModel("hang_at_start"), policy);
  std::stop_source stop;
  const std::jthread cancel([&] {
    EXPECT_TRUE(Hangs(folders.path()));
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(model->Start(stop.get_token()).status()));
}

// A model's declarations decide before it is asked; one without declarations decides by itself.
TEST(RunningModelTest, OperatorsThatAreNotDeclaredAreRefused) {
  struct Operator {
    std::string name = {};
    ModelSpec model = {};
  };
  const ModelSpec dense = SmallProblem().model;
  std::vector<Operator> operators(4, {.model = dense});
  operators[0].name = "moe";
  operators[0].model.moe =
      MoeSpec{.expert_count = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 1024};
  operators[1].name = "mla";
  operators[1].model.mla = MlaSpec{
      .kv_lora_rank = 512, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .v_head_dim = 128};
  operators[2].name = "sliding_window";
  operators[2].model.sliding_window = 512;
  operators[3].name = "mtp";
  operators[3].model.mtp_layer_count = 1;
  const auto declaring = Make(BadModel("guess_operators"));
  const auto silent = Make(BadModel("guess_silently"));
  for (const Operator& each : operators) {
    Problem problem = SmallProblem();
    problem.model = each.model;
    const absl::Status refused = MakePlanModel(declaring, problem).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << each.name;
    EXPECT_EQ(Reason(refused), "COST_MODEL_REFUSED") << each.name;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("it only models dense, not " + each.name));
    EXPECT_TRUE(MakePlanModel(silent, problem).ok()) << each.name;
  }
  EXPECT_TRUE(MakePlanModel(declaring, SmallProblem()).ok());
}

TEST(RunningModelTest, ChipsAndPrecisionsThatAreNotDeclaredAreRefused) {
  Problem problem = SmallProblem();
  problem.workload.precision = Precision::kFp16;
  const absl::Status precision = MakePlanModel(Make(BadModel("good")), problem).status();
  EXPECT_EQ(Reason(precision), "COST_MODEL_REFUSED");
  EXPECT_THAT(std::string(precision.message()), HasSubstr("it only models bf16, not fp16"));
  const auto own_chips = Make(BadModel("guess_chips"));
  problem = SmallProblem();
  problem.cluster.pools[0].chip.id = "acme-x2";
  EXPECT_TRUE(MakePlanModel(own_chips, problem).ok());
  problem.cluster.pools[0].chip.id = "acme-y1";
  const absl::Status chip = MakePlanModel(own_chips, problem).status();
  EXPECT_EQ(Reason(chip), "COST_MODEL_REFUSED");
  EXPECT_THAT(std::string(chip.message()), HasSubstr("it only models acme-x*, other, not acme-y1"));
}

TEST(RunningModelTest, DevicesThatSharePhysicalOnesAreRefused) {
  Problem problem = SmallProblem();
  problem.cluster.pools[0].physical_devices_per_node = 1;
  const absl::Status shared = MakePlanModel(Make(BadModel("good")), problem).status();
  EXPECT_EQ(Reason(shared), "COST_MODEL_REFUSED");
  EXPECT_THAT(std::string(shared.message()), HasSubstr("physical_devices_per_node = 1"));
}

TEST(RunningModelTest, OneThatDoesNotServeIsNotAsked) {
  const absl::Status status = Make(BadModel("not_serving"))->Start({}).status();
  EXPECT_EQ(Reason(status), "COST_MODEL_START");
  EXPECT_THAT(std::string(status.message()), HasSubstr("serving")) << status;
}

TEST(RunningModelTest, WarningsAboutAQuestionAreKept) {
  const auto opened = MakePlanModel(Make(BadModel("warnings")), SmallProblem(), {}, {"first"});
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::vector<std::string>& warnings = (*opened)->warnings();
  ASSERT_THAT(warnings, SizeIs(17));  // 16 of 20
  EXPECT_EQ(warnings[0], "first");
  EXPECT_EQ(warnings[1], "cost model bad:  [2Jassumes much, 0");
}

TEST(RunningModelTest, WhatAModelSaysOfItselfIsBounded) {
  const auto about = Make(BadModel("long_info"))->Start({});
  ASSERT_TRUE(about.ok()) << about.status();
  EXPECT_EQ(about->description, " [2J" + std::string(252, 'x'));  // 256 bytes
  EXPECT_THAT(about->operators, SizeIs(256));
}

TEST(RunningModelTest, TemplatesAnswer) {
  for (const ModelManifest& manifest : {CppTemplate(), CTemplate()}) {
    const auto opened = MakePlanModel(Make(manifest), SmallProblem());
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ((*opened)->version().protocol, "1.0");
    EXPECT_EQ((*opened)->version().checksum, manifest.sha256);
    const auto figures = (*opened)->Estimate(SmallPlans(2'000), {.with_breakdown = true});
    ASSERT_TRUE(figures.ok()) << figures.status();
    ASSERT_THAT(*figures, SizeIs(2'000));
    std::size_t ok = 0;
    for (const PlanFigures& figure : *figures) {
      EXPECT_NE(figure.verdict, PlanVerdict::kError) << manifest.name << ": " << figure.reason;
      ok += figure.verdict == PlanVerdict::kOk ? 1 : 0;
    }
    EXPECT_GT(ok, 500U) << manifest.name;
  }
}

TEST(ModelShelfTest, FindsModelsByName) {
  const TemporaryFolder folder;
  folder.Write("good.json", ManifestText(CppTemplate()));
  const auto registry = ModelRegistry::Open(folder.path(), QuickPolicy());
  ASSERT_TRUE(registry.ok()) << registry.status();
  EXPECT_TRUE((*registry)->OpenModel("roofline-cpp", SmallProblem()).ok());
  const auto unknown = (*registry)->OpenModel("other", SmallProblem());
  EXPECT_EQ(Reason(unknown.status()), "UNKNOWN_COST_MODEL");
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("roofline-cpp"));
}

int Kills() {
  const char* const asked = std::getenv("MESHWRIGHT_MODEL_KILLS");
  return asked == nullptr ? 10 : std::atoi(asked);
}

// Every plan is answered and no process stays, whenever the model is killed.
TEST(RunningModelTest, KillsAreSurvived) {
  const ModelFolders folders;
  FailurePolicy policy = QuickPolicy();
  policy.most_failures = 1'000'000;
  const auto model = Make(CppTemplate(), policy);
  const auto opened = MakePlanModel(model, SmallProblem());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const std::vector<ParallelPlan> plans = SmallPlans(2'048);
  for (int i = 0; i < Kills(); ++i) {
    const int pid = model->Pid();
    std::jthread killer([pid, i] {
      PassRounds(i % 40 * 100'000L);
      if (pid > 0) kill(pid, SIGKILL);
    });
    const auto figures = (*opened)->Estimate(plans, {});
    ASSERT_TRUE(figures.ok()) << figures.status();
    for (const PlanFigures& figure : *figures) {
      ASSERT_NE(figure.verdict, PlanVerdict::kError) << figure.reason;
    }
  }
  model->Stop();
  EXPECT_THAT(ProcessesLeft(folders.path()), IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
