// Plans whose stages name their pools.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// Data parallel 2 and 4, with 4 sequences in each round.
PlanRequest TwoStages() {
  return {.stages = {{.pool = "a",
                      .node_count = 1,
                      .tensor_parallel = 2,
                      .data_parallel = 2,
                      .layer_count = 1,
                      .micro_batch_size = 2},
                     {.pool = "b", .node_count = 1, .data_parallel = 4, .layer_count = 3}}};
}

struct Refused {
  std::string name;
  PlanRequest plan;
  bool ties = false;
  FieldViolation violation;
};

PlanRequest With(void (*change)(PlanRequest&)) {
  PlanRequest plan = TwoStages();
  change(plan);
  return plan;
}

const Refused kRefused[] = {
    {"GroupThatDividesNone",
     With([](PlanRequest& p) { p.zero_group_size = 3; }),
     false,
     {"plan.zero_group_size", "3; must divide data x context = 2 of stages[0]"}},
    {"GroupThatDividesOne",
     With([](PlanRequest& p) { p.zero_group_size = 4; }),
     false,
     {"plan.zero_group_size", "4; must divide data x context = 2 of stages[0]"}},
    {"GroupThatIsTooLarge",
     With([](PlanRequest& p) { p.zero_group_size = 64; }),
     false,
     {"plan.zero_group_size", "64; must divide data x context = 2 of stages[0]"}},
    {"AnotherNumberOfStages",
     With([](PlanRequest& p) { p.pipeline_parallel = 7; }),
     false,
     {"plan.pipeline_parallel", "7; stages has 2 entries"}},
    {"OtherLayers",
     With([](PlanRequest& p) {
       p.layers_per_stage = {2, 2};
     }),
     false,
     {"plan.layers_per_stage", "2 2; stages hold 1 3"}},
    {"LayersOfMoreStages",
     With([](PlanRequest& p) {
       p.layers_per_stage = {1, 2, 1};
     }),
     false,
     {"plan.layers_per_stage", "1 2 1; stages hold 1 3"}},
    {"TiedEmbeddings",
     TwoStages(),
     true,
     {"plan.stages[1].tensor_parallel", "1; tied embeddings need that of the first stage, 2"}},
    {"PoolsBesideStages",
     With([](PlanRequest& p) { p.pools = {"a"}; }),
     false,
     {"plan.pools", "[a]; must be absent beside stages, which name their pools"}},
    {"TwoPoolsWithoutStages",
     {.pools = {"a", "b"}},
     false,
     {"plan.pools", "[a, b]; a plan without stages uses one pool"}},
    {"UnknownPool",
     {.pools = {"c"}},
     false,
     {"plan.pools", "[c]; no pool of the cluster has this name"}},
    {"NeitherPoolNorStages",
     {.tensor_parallel = 2},
     false,
     {"plan.stages",
      "empty; a cluster of 2 pools needs one entry for each pipeline stage, or the one pool of the "
      "plan in pools"}},
    {"FieldThatStagesOverride",
     With([](PlanRequest& p) { p.tensor_parallel = -1; }),
     false,
     {"plan.tensor_parallel", "-1; must be >= 1"}},
};

class RefusedStagesTest : public testing::TestWithParam<Refused> {};

TEST_P(RefusedStagesTest, OneError) {
  Question question = TwoPools();
  question.model.tied_embeddings = GetParam().ties;
  const auto plan = ResolvePlan(GetParam().plan, Resolved(question), "plan");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(FieldViolations(plan.status()), testing::ElementsAre(GetParam().violation));
}

INSTANTIATE_TEST_SUITE_P(All, RefusedStagesTest, testing::ValuesIn(kRefused),
                         [](const auto& test) { return test.param.name; });

// A plan has one key, whatever its flat fields say of what its stages override.
TEST(ResolvePlanTest, StagesOverrideFlatFields) {
  const Problem problem = Resolved(TwoPools());
  const auto bare = ResolvePlan(TwoStages(), problem, "plan");
  ASSERT_TRUE(bare.ok()) << bare.status();
  PlanRequest stated = TwoStages();
  stated.tensor_parallel = 4;
  stated.data_parallel = 5;
  stated.context_parallel = 2;
  stated.micro_batch_size = 3;
  stated.pipeline_parallel = 2;
  stated.layers_per_stage = {1, 3};
  stated.recompute = RecomputePlan{.granularity = RecomputeGranularity::kFull};
  const auto plan = ResolvePlan(stated, problem, "plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(MakePlanKey(plan->plan).text, MakePlanKey(bare->plan).text);
  stated.zero_group_size = 2;  // divides both
  EXPECT_TRUE(ResolvePlan(stated, problem, "plan").ok());
}

// The plan is that of a cluster of pool "b" alone, of four devices.
TEST(ResolvePlanTest, APlanForOnePoolHasTheSizesOfThatPool) {
  const Problem problem = Resolved(TwoPools());
  const auto plan = ResolvePlan({.tensor_parallel = 2, .pools = {"b"}}, problem, "plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.data_parallel, 2);
  EXPECT_THAT(plan->plan.pools, testing::ElementsAre("b"));
  const auto own = ProblemOfPlan(std::make_shared<const Problem>(problem), plan->plan);
  ASSERT_EQ(own->cluster.pools.size(), 1U);
  EXPECT_EQ(own->cluster.pools.front().name, "b");
  EXPECT_THAT(own->warnings, testing::Contains(testing::HasSubstr("pool \"a\" is idle")));
  // A cluster of one pool has no other to choose, so that its plans keep their keys.
  const auto same = ResolvePlan({.tensor_parallel = 2, .pools = {"b"}}, *own, "plan");
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_THAT(same->plan.pools, testing::IsEmpty());
}

TEST(ResolvePlanTest, StagesMayLeaveAPoolIdle) {
  Question question = TwoPools();
  question.cluster.pools.push_back(Nodes(2, 4));
  question.cluster.pools.back().name = "c";
  const auto problem = std::make_shared<const Problem>(Resolved(question));
  const auto plan = ResolvePlan(TwoStages(), *problem, "plan");
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto own = ProblemOfPlan(problem, plan->plan);
  EXPECT_EQ(own->cluster, problem->cluster);
  EXPECT_THAT(own->warnings,
              testing::Contains("pool \"c\" is idle: the plan uses none of its 2 nodes"));
  PlanRequest part = TwoStages();
  part.stages.front().pool = "c";
  const auto partly = ResolvePlan(part, *problem, "plan");
  ASSERT_TRUE(partly.ok()) << partly.status();
  EXPECT_THAT(ProblemOfPlan(problem, partly->plan)->warnings,
              testing::IsSupersetOf({"pool \"a\" is idle: the plan uses none of its 1 nodes",
                                     "pool \"c\": the plan leaves 1 of its 2 nodes idle"}));
  part.stages.back().pool = "a";
  part.stages.front().pool = "a";
  EXPECT_THAT(
      FieldViolations(ResolvePlan(part, *problem, "plan").status()),
      testing::ElementsAre(FieldViolation{"plan.stages", "use 2 nodes of pool \"a\"; it has 1"}));
}

// Four stages of two devices fill two nodes of four, and a stage of two devices on a node leaves
// the rest of it idle. A stage with as many devices as its nodes has is one of whole nodes.
TEST(ResolvePlanTest, StagesMayBePartsOfNodes) {
  const Problem problem = Resolved(TwoPools());
  const StagePlan part = {
      .pool = "a", .node_count = 1, .tensor_parallel = 2, .layer_count = 1, .device_count = 2};
  PlanRequest plan = {.stages = {part, part, part, part}};
  plan.stages[2].pool = plan.stages[3].pool = "b";
  const auto resolved = ResolvePlan(plan, problem, "plan");
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(ParsePlanKey(MakePlanKey(resolved->plan).text), resolved->plan);
  PlanRequest whole = TwoStages();
  const auto usual = ResolvePlan(whole, problem, "plan");
  whole.stages.front().device_count = 4;
  const auto stated = ResolvePlan(whole, problem, "plan");
  ASSERT_TRUE(usual.ok() && stated.ok());
  EXPECT_EQ(MakePlanKey(stated->plan), MakePlanKey(usual->plan));
}

struct WrongPart {
  int node_count = 1;
  int device_count = 2;
  std::vector<FieldViolation> violations = {};
};

TEST(ResolvePlanTest, RefusesPartsThatAreNotInsideANode) {
  const Problem problem = Resolved(TwoPools());
  const WrongPart cases[] = {
      {2,
       2,
       {{"plan.stages[0].device_count",
         "2 of 2 nodes; must be a part of one node of 4 devices, or absent for whole nodes"}}},
      {1, 3, {{"plan.stages[0].device_count", "3; tensor x data x context is 2"}}}};
  for (const WrongPart& wrong : cases) {
    const StagePlan stage = {.pool = "a",
                             .node_count = wrong.node_count,
                             .tensor_parallel = 2,
                             .layer_count = 1,
                             .device_count = wrong.device_count};
    StagePlan rest = stage;
    rest.pool = "b";
    rest.layer_count = 3;
    rest.node_count = 1;
    rest.device_count = 2;
    EXPECT_EQ(FieldViolations(ResolvePlan({.stages = {stage, rest}}, problem, "plan").status()),
              wrong.violations);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
