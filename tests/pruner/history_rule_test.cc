#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <tuple>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "tests/pruner/all_plans.h"
#include "tests/pruner/open_problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Optional;

struct Case {
  std::string name = {};
  Question question = {};

  friend void PrintTo(const Case& asked, std::ostream* out) { *out << asked.name; }
};

Question Asked(ModelSpec model, const char* framework) {
  Question question = TinyQuestion();
  question.model = std::move(model);
  question.workload.framework_name = framework;
  question.cluster.pools = {Nodes(2, 4)};
  return question;
}

Question ByStage() {
  Question question = Asked(TinyModel(), "generic");
  question.workload.framework_facts = {{.name = "recomputes_by_stage", .value = "true"}};
  return question;
}

std::vector<Case> Cases() {
  return {{"generic", Asked(TinyModel(), "generic")},
          {"experts_megatron_core", Asked(TinyExperts(), "megatron-core")},
          {"torchtitan", Asked(TinyModel(), "torchtitan")},
          {"by_stage", ByStage()}};
}

class HistoryRuleTest : public testing::TestWithParam<Case> {};

// Returns the legal plans that the rules that are not proven accept, best first.
std::vector<Evaluated> RankedPlans(const Problem& problem) {
  std::vector<Evaluated> plans = LeftByUnprovenRules(AllPlans(problem).plans(), problem);
  std::ranges::sort(plans, [](const Evaluated& a, const Evaluated& b) {
    return std::tie(a.estimate.step_time, a.plan) < std::tie(b.estimate.step_time, b.plan);
  });
  return plans;
}

FailedRun Failed(const Evaluated& e, Outcome outcome) {
  return {.plan = e.plan,
          .outcome = outcome,
          .reserved_memory = e.estimate.reserved_memory,
          .memory_capacity = GiB(80)};
}

std::int64_t CountOf(std::string_view rule, const SearchSummary& summary) {
  const auto found =
      std::ranges::find(summary.pruned_count_by_rule, rule, [](const auto& r) { return r.first; });
  return found->second;
}

void ExpectAllCounted(const SearchSummary& summary) {
  std::int64_t counted = summary.evaluated_count;
  for (const auto& [rule, count] : summary.pruned_count_by_rule) counted += count;
  EXPECT_EQ(counted, summary.space_count);
}

SearchFound Search(const Problem& problem, const Calibration& calibration,
                   const std::vector<std::string>& disabled_rules = {}) {
  return SearchExhaustively(SpaceOf(problem), ToEstimatorProblem(problem), calibration,
                            {.plan_count = 3, .disabled_rules = disabled_rules});
}

// The best plans fail one after the other, by a crash or because memory ran out. Each time the
// search finds the best of the remaining plans.
TEST_P(HistoryRuleTest, SearchFindsTheBestThatHasNotFailed) {
  const Problem problem = OpenProblem(GetParam().question);
  const std::vector<Evaluated> plans = RankedPlans(problem);
  Calibration calibration;
  for (int i = 0; i < 12; ++i) {
    const auto best = std::ranges::find_if(plans, [&](const Evaluated& e) {
      return AnalyticModel(ToEstimatorProblem(problem), calibration).CheckMemory(e.plan).fits &&
             std::ranges::find(calibration.failed, e.plan, &FailedRun::plan) ==
                 calibration.failed.end();
    });
    const SearchFound found = Search(problem, calibration);
    ExpectAllCounted(found.summary);
    ASSERT_EQ(found.best.empty(), best == plans.end());
    if (found.best.empty()) break;
    EXPECT_EQ(found.best.front().estimate.step_time, best->estimate.step_time)
        << MakePlanKey(found.best.front().plan).text << "\n"
        << MakePlanKey(best->plan).text;
    // The plan that the search found, as a user would state it.
    const FailedRun run = Failed(found.best.front(), i % 3 == 2 ? Outcome::kOom : Outcome::kCrash);
    calibration.failed.push_back(run);
    if (run.outcome == Outcome::kOom) calibration.out_of_memory = run;
  }
}

struct TightCase {
  std::string name = {};
  std::string fact = {};
};

void PrintTo(const TightCase& c, std::ostream* out) { *out << c.name; }

class FailedByStageTest : public testing::TestWithParam<TightCase> {};

bool IsByStage(const ParallelPlan& plan) {
  const RecomputePlan& recompute = plan.recompute;
  const std::vector<int>& counts = recompute.layer_counts;
  return !recompute.selective_layer_counts.empty() ||
         std::ranges::adjacent_find(counts, std::not_equal_to()) != counts.end();
}

// If no plan fits without recomputation, the best plan recomputes by stage. Whenever it crashes,
// the search finds the best of the remaining plans.
TEST_P(FailedByStageTest, NextBestIsFound) {
  Question question = TinyQuestion();
  question.workload.framework_name = "generic";
  question.workload.attention_kernel = AttentionKernel::kUnfused;
  question.workload.framework_facts = {{.name = GetParam().fact, .value = "true"}};
  question.cluster.pools = {Nodes(1, 2)};
  Problem problem = OpenProblem(question);
  problem.space.chosen = {{Dimension::kPipelineParallel, {.values = {2}}}};
  std::vector<Evaluated> plans = RankedPlans(problem);
  // Without copies to share them, the states are whole at every ZeRO stage, so these are one plan
  // of the space.
  std::erase_if(plans, [](const Evaluated& e) {
    return e.plan.pipeline_parallel != 2 || e.plan.zero_stage != 0;
  });
  Bytes least_plain = GiB(80);
  for (const Evaluated& e : plans) {
    if (e.plan.recompute.granularity != RecomputeGranularity::kNone) continue;
    least_plain = std::min(least_plain, e.estimate.reserved_memory);
  }
  problem.cluster.pools.front().memory_capacity = Bytes{least_plain.count - 1};
  std::erase_if(plans,
                [&](const Evaluated& e) { return e.estimate.reserved_memory >= least_plain; });
  Calibration calibration;
  int by_stage = 0;
  for (int i = 0; i < 40; ++i) {
    const FailedPlans failed(calibration, ToEstimatorProblem(problem));
    const auto best = std::ranges::find_if(
        plans, [&](const Evaluated& e) { return failed.Find(e.plan) == nullptr; });
    const SearchFound found = Search(problem, calibration);
    ExpectAllCounted(found.summary);
    EXPECT_TRUE(found.summary.complete);
    ASSERT_EQ(found.best.empty(), best == plans.end());
    if (found.best.empty()) break;
    EXPECT_EQ(found.best.front().estimate.step_time, best->estimate.step_time)
        << i << " " << MakePlanKey(found.best.front().plan).text << "\n"
        << MakePlanKey(best->plan).text;
    by_stage += IsByStage(found.best.front().plan) ? 1 : 0;
    calibration.failed.push_back(Failed(found.best.front(), Outcome::kCrash));
  }
  EXPECT_GT(by_stage, 5);
}

INSTANTIATE_TEST_SUITE_P(All, FailedByStageTest,
                         testing::Values(TightCase{.name = "full", .fact = "recomputes_by_stage"},
                                         TightCase{.name = "mixed", .fact = "mixes_recompute"}),
                         [](const auto& test) { return test.param.name; });

// If no other rule needs the cost model, every plan that is legal and not ruled out is evaluated.
// Plans that fit the device and are not evaluated are counted for the history.
TEST_P(HistoryRuleTest, CountsItsPlansApart) {
  const Problem problem = OpenProblem(GetParam().question);
  std::vector<Evaluated> plans = RankedPlans(problem);
  // The space has no numbers that differ by stage.
  std::erase_if(plans, [](const Evaluated& e) {
    const std::vector<int>& counts = e.plan.recompute.layer_counts;
    return std::ranges::adjacent_find(counts, std::not_equal_to()) != counts.end();
  });
  ASSERT_TRUE(std::ranges::all_of(plans, [](const Evaluated& e) { return e.estimate.fits; }));
  std::vector<Bytes> sizes;
  for (const Evaluated& e : plans) sizes.push_back(e.estimate.reserved_memory);
  std::ranges::sort(sizes);
  const auto middle = std::ranges::find(plans, sizes[sizes.size() / 2], [](const Evaluated& e) {
    return e.estimate.reserved_memory;
  });
  const Calibration calibration = {.out_of_memory = Failed(*middle, Outcome::kOom)};
  const auto left = std::ranges::count_if(
      sizes, [&](const Bytes& size) { return size < sizes[sizes.size() / 2]; });
  const std::vector<std::string> others = {"bound", "dominance"};
  const SearchSummary before = Search(problem, {}, others).summary;
  const SearchSummary after = Search(problem, calibration, others).summary;
  ExpectAllCounted(after);
  EXPECT_EQ(before.evaluated_count, std::ssize(plans));
  EXPECT_EQ(CountOf("history", before), 0);
  EXPECT_EQ(after.evaluated_count, left);
  EXPECT_EQ(CountOf("memory", after), 0);
  EXPECT_GE(CountOf("history", after), before.evaluated_count - left);
  ExpectAllCounted(Search(problem, calibration).summary);
}

INSTANTIATE_TEST_SUITE_P(All, HistoryRuleTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

TEST(FailedPlans, FindsWhatIsWrittenDifferently) {
  const Problem problem = OpenProblem(TinyQuestion());
  ParallelPlan stated = {.pipeline_parallel = 2,
                         .data_parallel = 2,
                         .recompute = {.granularity = RecomputeGranularity::kFull},
                         .layers_per_stage = {2, 2}};
  const Calibration calibration = {.failed = {{.plan = stated, .outcome = Outcome::kCrash}}};
  const FailedPlans failed(calibration, ToEstimatorProblem(problem));
  ParallelPlan searched = stated;
  searched.layers_per_stage.clear();
  searched.recompute.layer_counts = {2, 2};
  EXPECT_NE(failed.Find(searched), nullptr);
  searched.recompute.layer_counts = {1, 1};
  EXPECT_EQ(failed.Find(searched), nullptr);
  EXPECT_TRUE(failed.HaveOneLike(searched));
  EXPECT_FALSE(failed.HaveOneLike({.data_parallel = 4}));
}

// The text names the rule, the numbers and the run that it relies on, and the order of plans if
// that is the reason.
TEST(WhyRuledOut, NamesRuleNumbersAndRun) {
  const Problem problem = OpenProblem(TinyQuestion());
  ParallelPlan failed = {.data_parallel = 4, .micro_batch_size = 2};
  const auto size_of = [&](const ParallelPlan& plan) {
    return AnalyticModel(ToEstimatorProblem(problem)).CheckMemory(plan).reserved_memory;
  };
  Calibration calibration = {.out_of_memory = FailedRun{.plan = failed,
                                                        .reserved_memory = size_of(failed),
                                                        .memory_capacity = GiB(80)}};
  const auto why = [&](const ParallelPlan& plan) {
    return WhyRuledOut(plan, calibration, ToEstimatorProblem(problem));
  };
  ParallelPlan larger = failed;
  larger.micro_batch_size = 4;
  const std::string numbers = fmt::format(
      "rule history: estimated at {:.2f} GiB without history, not less than the {:.2f} "
      "GiB of tp1.",
      size_of(larger) / GiB(1), size_of(failed) / GiB(1));
  EXPECT_THAT(why(larger),
              Optional(testing::AllOf(HasSubstr(numbers),
                                      HasSubstr(" of this job, which ran out of memory"),
                                      HasSubstr("by micro_batch_size 4 instead of 2"))));
  ParallelPlan smaller = failed;
  smaller.micro_batch_size = 1;
  EXPECT_EQ(why(smaller), std::nullopt);
  // The order does not compare plans of another model.
  calibration.out_of_memory->job = "gpt on 8 devices";
  EXPECT_THAT(why(larger), Optional(testing::AllOf(HasSubstr(" of gpt on 8 devices, which ran"),
                                                   testing::Not(HasSubstr("micro_batch_size 4")))));
  calibration.failed = {{.plan = smaller, .outcome = Outcome::kCrash}};
  EXPECT_THAT(why(smaller), Optional(testing::AllOf(HasSubstr("rule history: tp1."),
                                                    HasSubstr("of this job crashed"))));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
