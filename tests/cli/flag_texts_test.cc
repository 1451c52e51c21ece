#include "cli/program/flag_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/reports/print_answer.h"
#include "cli/reports/study_table.h"
#include "meshwright/v1/service.pb.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

struct FlagCase {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<FieldViolation> mistakes;
};

const FlagCase kFlagCases[] = {
    {"Clean", {"report", "--study-id", "study-1", "--note", "one\n\ttwo"}, {}},
    {"Global",
     {"--db", "a\x1b[2J", "report"},
     {{"--db", R"("a\u001b[2J"; must have no control characters, but byte 2 is U+001B)"}}},
    {"OfACommand",
     {"report", "--study-id", "a\nb"},
     {{"--study-id", R"("a\u000ab"; must have no control characters, but byte 2 is U+000A)"}}},
    {"NotUtf8",
     {"report", "--study-id", "a\xff"},
     {{"--study-id", R"("a\xff"; must be UTF-8, but byte 2 is not)"}}},
    {"Argument",
     {"report", "a\x07"},
     {{"file", R"("a\u0007"; must have no control characters, but byte 2 is U+0007)"}}},
    {"EscapeInANote",
     {"report", "--note", "one\n\x1b"},
     {{"--note", R"("one\u000a\u001b"; must have no control characters, but byte 5 is U+001B)"}}},
};

class FlagTextsTest : public testing::TestWithParam<FlagCase> {};

TEST_P(FlagTextsTest, NamesTheFlag) {
  CLI::App app("a program", "program");
  std::string db;
  std::string id;
  std::string note;
  std::string file;
  app.add_option("--db", db);
  CLI::App& report = *app.add_subcommand("report");
  report.add_option("--study-id", id);
  report.add_option("--note", note);
  report.add_option("file", file);
  std::vector<std::string> arguments(GetParam().arguments.rbegin(), GetParam().arguments.rend());
  app.parse(arguments);
  EXPECT_EQ(FlagTextMistakes(app), GetParam().mistakes);
}

INSTANTIATE_TEST_SUITE_P(All, FlagTextsTest, testing::ValuesIn(kFlagCases),
                         [](const auto& row) { return row.param.name; });

// A store of an older program may contain such names.
TEST(ForTerminalTest, StoredNamesCannotMoveTheCursor) {
  v1::ListStudiesResponse studies;
  v1::Study& study = *studies.add_studies();
  study.set_id("study-1");
  study.set_model_name("llama\x1b[2J\nstudy-2");
  const std::string text = StudyTable(ForTerminal(studies), 100);
  EXPECT_THAT(text, HasSubstr("llama [2J study-2"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
