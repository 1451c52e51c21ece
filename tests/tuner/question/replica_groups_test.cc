// Plans whose replicas differ, as users state them.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A node of four devices in each of the pools "a" and "b", and a model without tied embeddings.
Question TwoPools() {
  Question question = TinyQuestion();
  question.model.tied_embeddings = false;
  question.cluster.pools.push_back(Nodes(1, 4));
  question.cluster.pools.back().name = "b";
  return question;
}

StagePlan StageOn(std::string pool, int layers) {
  return {.pool = std::move(pool), .node_count = 1, .tensor_parallel = 4, .layer_count = layers};
}

// Three quarters of the batch on "a".
PlanRequest Unequal(const Question& question) {
  const int batch = *question.workload.global_batch_size;
  return {.replica_groups = {{.micro_batch_count = 3 * batch / 4, .stages = {StageOn("a", 4)}},
                             {.micro_batch_count = batch / 4, .stages = {StageOn("b", 4)}}}};
}

// Placing so many replicas one after the other would hold up others.
TEST(ReplicaGroupsTest, ReplicasBeyondAllClustersAreRefusedBeforeTheyArePlaced) {
  Question question = TwoPools();
  PlanRequest plan = Unequal(question);
  plan.replica_groups[0].replica_count = 100'000'000;
  const auto problem = ResolveProblem(question, Known());
  ASSERT_TRUE(problem.ok()) << problem.status();
  const auto resolved = ResolvePlan(plan, *problem, "plan");
  EXPECT_THAT(std::string(resolved.status().message()),
              testing::HasSubstr("have more than 200000 stages"));
}

TEST(ReplicaGroupsTest, TheirOrderMakesNoOtherPlan) {
  const Question question = TwoPools();
  const Problem problem = Resolved(question);
  PlanRequest stated = Unequal(question);
  const auto plan = ResolvePlan(stated, problem, "plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(ParsePlanKey(MakePlanKey(plan->plan).text), plan->plan);
  std::swap(stated.replica_groups[0], stated.replica_groups[1]);
  stated.tensor_parallel = 2;  // overridden
  const auto swapped = ResolvePlan(stated, problem, "plan");
  ASSERT_TRUE(swapped.ok()) << swapped.status();
  EXPECT_EQ(MakePlanKey(swapped->plan), MakePlanKey(plan->plan));
}

TEST(ReplicaGroupsTest, EveryMistakeIsNamedAtOnce) {
  const Question question = TwoPools();
  const int batch = *question.workload.global_batch_size;
  PlanRequest stated = Unequal(question);
  stated.zero_stage = 2;
  stated.replica_groups[0].micro_batch_count = batch;
  stated.replica_groups[1].stages[0].data_parallel = 2;
  stated.replica_groups[1].stages[0].tensor_parallel = 2;
  stated.replica_groups[1].stages[0].layer_count = 3;
  const auto refused = ResolvePlan(stated, Resolved(question), "plan");
  EXPECT_THAT(
      FieldViolations(refused.status()),
      testing::UnorderedElementsAre(
          FieldViolation{"plan.zero_stage",
                         "2; replicas that differ exchange gradients once a step, so it must be 0 "
                         "or 1"},
          FieldViolation{"plan.replica_groups",
                         fmt::format("run {} sequences in a step, the sum of replica_count x "
                                     "micro_batch_count x micro_batch_size; the global batch has "
                                     "{}",
                                     batch + batch / 4, batch)},
          FieldViolation{"plan.replica_groups[1].stages[0].data_parallel",
                         "2; must be 1, because replica_count counts the replicas"},
          FieldViolation{"plan.replica_groups[1].stages", "hold 3 layers; the model has 4"}));
}

// The replicas on "b" are two stages of two devices, whose layers have tensor parallelism 2.
TEST(ReplicaGroupsTest, ALayerHasOneTensorDegree) {
  const Question question = TwoPools();
  PlanRequest stated = Unequal(question);
  StagePlan half = StageOn("b", 2);
  half.tensor_parallel = half.device_count = 2;
  stated.replica_groups[1].stages = {half, half};
  const auto refused = ResolvePlan(stated, Resolved(question), "plan");
  const std::string rule =
      ", and a layer has the same in all replicas, whose gradients are added up part by part";
  EXPECT_THAT(
      FieldViolations(refused.status()),
      testing::ElementsAre(FieldViolation{"plan.replica_groups[1].stages[0].tensor_parallel",
                                          "2; layer 0 has tensor parallelism 4 in "
                                          "replica_groups[0].stages[0]" +
                                              rule},
                           FieldViolation{"plan.replica_groups[1].stages[1].tensor_parallel",
                                          "2; layer 2 has tensor parallelism 4 in "
                                          "replica_groups[0].stages[0]" +
                                              rule}));
}

TEST(ReplicaGroupsTest, EqualReplicasAreOneGroup) {
  const Question question = TwoPools();
  PlanRequest stated = Unequal(question);
  stated.replica_groups[1] = stated.replica_groups[0];
  EXPECT_THAT(FieldViolations(ResolvePlan(stated, Resolved(question), "plan").status()),
              testing::Contains(FieldViolation{
                  "plan.replica_groups[1]",
                  "the replicas are those of replica_groups[0]; add up replica_count"}));
}

TEST(ReplicaGroupsTest, FrameworksRefuseThem) {
  for (const char* framework : {"megatron-core", "torchtitan", "flagscale"}) {
    Question question = TwoPools();
    question.workload.framework_name = framework;
    const auto refused = ResolveLaunchedPlan(Unequal(question), Resolved(question), "plan");
    EXPECT_THAT(FieldViolations(refused.status()),
                testing::Contains(testing::Field(&FieldViolation::field, "plan.replica_groups")))
        << framework << " " << refused.status();
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
