#include "server/tuner/search/baseline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Shape {
  int tensor = 1;
  int pipeline = 1;
  int experts = 1;
};

ParallelPlan PlanOf(const Shape& shape, RecomputeGranularity granularity) {
  ParallelPlan plan = {.tensor_parallel = shape.tensor,
                       .sequence_parallel = shape.tensor > 1,
                       .pipeline_parallel = shape.pipeline,
                       .data_parallel = 4 / (shape.tensor * shape.pipeline),
                       .expert_parallel = shape.experts,
                       .zero_stage = 1};
  plan.recompute.granularity = granularity;
  return plan;
}

// Follows the contract on one node of four devices: the shapes in its order, first without
// recomputation, then with full recomputation.
std::vector<ParallelPlan> InOrder(const std::vector<Shape>& shapes) {
  std::vector<ParallelPlan> plans;
  for (const auto granularity : {RecomputeGranularity::kNone, RecomputeGranularity::kFull}) {
    for (const Shape& shape : shapes) plans.push_back(PlanOf(shape, granularity));
  }
  return plans;
}

// At every capacity the baseline is the first of `plans` that fits.
void ExpectFirstThatFits(Problem problem, const std::vector<ParallelPlan>& plans) {
  std::vector<Bytes> needs;
  for (const ParallelPlan& plan : plans) {
    ASSERT_TRUE(CheckPlan(plan, problem, "plan").empty()) << MakePlanKey(plan).text;
    AnalyticModel model(ToEstimatorProblem(problem));
    needs.push_back(model.Quick(plan).reserved_memory);
  }
  std::set<std::size_t> chosen;
  const auto expect = [&](Bytes capacity) {
    problem.cluster.pools.front().memory_capacity = capacity;
    AnalyticModel model(ToEstimatorProblem(problem));
    const std::optional<ParallelPlan> baseline = RuleOfThumbBaseline(problem, model);
    std::size_t first = 0;
    while (first < needs.size() && needs[first] > capacity) ++first;
    chosen.insert(first);
    ASSERT_EQ(baseline.has_value(), first < plans.size()) << capacity.count;
    if (baseline.has_value()) {
      EXPECT_EQ(*baseline, plans[first]) << capacity.count;
    }
  };
  for (const Bytes need : needs) {
    expect(need);
    expect(need - Bytes{1});
  }
  EXPECT_GE(chosen.size(), 4U) << "the capacities do not tell the plans apart";
  EXPECT_TRUE(chosen.contains(0) && chosen.contains(plans.size()));
}

// A long sequence is split if nothing fits otherwise, and only then.
TEST(BaselineByThumbTest, SplitsALongSequence) {
  Question question = TinyQuestion();
  question.model = Llama2_7b();
  question.workload = {.sequence_length = 131072, .global_batch_size = 8};
  question.cluster.pools = {Nodes(4, 8)};
  const auto context_of = [&](Bytes capacity) {
    question.cluster.pools.front().memory_capacity = capacity;
    const Problem problem = Resolved(question);
    AnalyticModel model(ToEstimatorProblem(problem));
    const auto plan = RuleOfThumbBaseline(problem, model);
    return plan.has_value() ? plan->context_parallel : 0;
  };
  EXPECT_EQ(context_of(GiB(1000)), 1);
  EXPECT_EQ(context_of(GiB(1)), 0);
  int most = 0;
  for (int gib = 10; gib < 60; ++gib) most = std::max(most, context_of(GiB(gib)));
  EXPECT_GT(most, 1);
}

TEST(BaselineByThumbTest, DenseModel) {
  ExpectFirstThatFits(Resolved(TinyQuestion()),
                      InOrder({{1, 1}, {2, 1}, {1, 2}, {4, 1}, {2, 2}, {1, 4}}));
}

TEST(BaselineByThumbTest, LeastExpertParallelism) {
  Question question = TinyQuestion();
  question.model = TinyExperts();
  // Expert parallelism stays within tensor x data of a stage: 4 / pipeline devices.
  ExpectFirstThatFits(Resolved(question), InOrder({{1, 1, 1},
                                                   {1, 1, 2},
                                                   {1, 1, 4},
                                                   {2, 1, 1},
                                                   {2, 1, 2},
                                                   {2, 1, 4},
                                                   {1, 2, 1},
                                                   {1, 2, 2},
                                                   {4, 1, 1},
                                                   {4, 1, 2},
                                                   {4, 1, 4},
                                                   {2, 2, 1},
                                                   {2, 2, 2},
                                                   {1, 4, 1}}));
}

// Four nodes of one device: tensor parallelism of two would leave the node.
TEST(BaselineByThumbTest, TensorParallelismStaysInsideTheNode) {
  Question question = TinyQuestion();
  question.cluster.pools = {Nodes(4, 1)};
  ExpectFirstThatFits(Resolved(question), InOrder({{1, 1}, {1, 2}, {1, 4}}));
}

// Two sequences cannot be spread over four data ranks, and one layer makes one stage.
TEST(BaselineByThumbTest, SkipsWhatIsIllegal) {
  Question question = TinyQuestion();
  question.workload.global_batch_size = 2;
  question.model.layer_count = 1;
  const Problem problem = Resolved(question);
  AnalyticModel model(ToEstimatorProblem(problem));
  EXPECT_EQ(RuleOfThumbBaseline(problem, model), PlanOf({2, 1}, RecomputeGranularity::kNone));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
