#include "server/tuner/search/study_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

TEST(StudyCheckTest, ARequestWithNothingButAQuestionIsRight) {
  EXPECT_TRUE(Validate({.question = TinyQuestion()}).empty());
}

struct Case {
  const char* name;
  StudyRequest request;
  const char* field;
  const char* says;
};

class StudyCheckMistake : public testing::TestWithParam<Case> {};

TEST_P(StudyCheckMistake, IsNamed) {
  EXPECT_THAT(Validate(GetParam().request),
              ElementsAre(AllOf(Field(&FieldViolation::field, GetParam().field),
                                Field(&FieldViolation::description, HasSubstr(GetParam().says)))));
}

const Case kMistakes[] = {
    {"NoPlans", {.plan_count = 0}, "plan_count", "0; must be between 1 and 1000"},
    {"NoTime", {.deadline = Seconds(0)}, "deadline_seconds", "0; must be > 0"},
    {"Strategy", {.strategy = "magic"}, "strategy", "\"magic\"; must be one of exhaustive, "},
    {"Limit", {.evaluation_limit = 7}, "evaluation_limit", "strategy exhaustive takes no limit"},
    {"NoLimit",
     {.strategy = "random", .evaluation_limit = 0},
     "evaluation_limit",
     "0; must be > 0"},
    {"Front", {.strategy = "random", .pareto = true}, "pareto", "strategy must be exhaustive"},
    {"Rules",
     {.strategy = "random", .disabled_rules = {"memory"}},
     "disabled_rules",
     "only be switched off with exhaustive"},
    {"Rule",
     {.disabled_rules = {"memory", "nice"}},
     "disabled_rules[1]",
     "\"nice\"; must be one of framework, divisibility, "},
    {"Model",
     {.strategy = "random", .cost_model = CostModelRequest{.name = "own"}},
     "strategy",
     "stated beside cost_model"},
    {"Dimension", {.dimensions = {{.name = "colour"}}}, "dimensions[0]", "colour"},
};

INSTANTIATE_TEST_SUITE_P(All, StudyCheckMistake, testing::ValuesIn(kMistakes),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
