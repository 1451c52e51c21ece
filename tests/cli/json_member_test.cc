#include "cli/input/json_member.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  std::string name;
  std::string object;
  std::optional<std::string> model;
};

const Case kCases[] = {
    {"only", R"({"model":{"a":1}})", R"({"a":1})"},
    {"between", R"( { "id" : "x" , "model" :[1,2], "plan":{} })", "[1,2]"},
    {"nested_key_before", R"({"plan":{"model":1},"model":2})", "2"},
    {"brackets_in_text", R"({"id":"}]\"{,","model":"a,\\"})", R"("a,\\")"},
    {"first_of_two", R"({"model":1,"model":2})", "1"},
    {"absent", R"({"id":"model"})", std::nullopt},
    {"no_object", R"(["model"])", std::nullopt},
    {"empty", "", std::nullopt},
    {"empty_object", "{}", std::nullopt},
    {"cut_in_key", R"({"mod)", std::nullopt},
    {"cut_behind_escape", "{\"mod\\", std::nullopt},
    {"cut_in_value", R"({"model":{"a":)", R"({"a":)"},
    {"key_without_value", R"({"model"})", std::nullopt},
};

class FindJsonMemberTest : public testing::TestWithParam<Case> {};

TEST_P(FindJsonMemberTest, GivesTheTextOfTheValue) {
  const auto found = FindJsonMember(GetParam().object, "model");
  EXPECT_EQ(found.has_value() ? std::optional(std::string(*found)) : std::nullopt,
            GetParam().model);
}

INSTANTIATE_TEST_SUITE_P(All, FindJsonMemberTest, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
