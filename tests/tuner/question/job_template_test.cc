#include "server/tuner/question/job_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Optional;

std::string Expanded(std::string_view word) {
  return WithPlaceholders(word,
                          [](std::string_view name) { return "<" + std::string(name) + ">"; });
}

TEST(JobTemplateTest, PlaceholdersAreReplaced) {
  EXPECT_EQ(Expanded("--tp={tensor_parallel},{data_parallel}"),
            "--tp=<tensor_parallel>,<data_parallel>");
  EXPECT_EQ(Expanded("{{\"a\": {zero_stage}}}"), "{\"a\": <zero_stage>}");
  EXPECT_EQ(Expanded("plain"), "plain");
}

TEST(JobTemplateTest, MistakesInWordsAreNamed) {
  for (const std::string& name : PlaceholderNames()) {
    EXPECT_EQ(PlaceholderMistake("x{" + name + "}y"), std::nullopt) << name;
  }
  EXPECT_EQ(PlaceholderMistake("{flags}"), std::nullopt);
  EXPECT_EQ(PlaceholderMistake("{{}}"), std::nullopt);
  EXPECT_THAT(PlaceholderMistake("--x={flags}"), Optional(HasSubstr("or be only {flags}")));
  EXPECT_THAT(PlaceholderMistake("{tensor}"), Optional(HasSubstr("tensor_parallel")));
  for (const char* const word : {"{tensor_parallel", "tensor_parallel}", "{"}) {
    EXPECT_THAT(PlaceholderMistake(word), Optional(HasSubstr("must close every brace"))) << word;
  }
}

TEST(JobTemplateTest, VariablesAreChecked) {
  for (const char* const entry : {"A=1", "OMP_NUM_THREADS=", "HF_TOKEN", "KEYBOARD=us"}) {
    EXPECT_EQ(VariableMistake(entry), std::nullopt) << entry;
  }
  for (const char* const entry : {"=1", "1A=2", "A B=3", ""}) {
    EXPECT_THAT(VariableMistake(entry), Optional(HasSubstr("must be NAME=VALUE"))) << entry;
  }
  for (const char* const entry : {"HF_TOKEN=x", "api_key=x", "MY_SECRET_2=x"}) {
    EXPECT_THAT(VariableMistake(entry), Optional(HasSubstr("requests are stored"))) << entry;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
