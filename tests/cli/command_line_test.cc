#include "cli/commands/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/help/command_tree.h"
#include "cli/help/completion.h"
#include "cli/help/examples.h"
#include "cli/help/man_page.h"
#include "cli/help/usage_mistake.h"
#include "cli/program/program.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The command line, and the program that it fills.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() : app_("A program.", "meshwright") {
    AddCommandLine(app_, "meshwright 1.2.3", program_);
  }

  // Returns what is wrong with a line; empty if it is right.
  std::string MistakeIn(const std::string& line) {
    std::istringstream words(line);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.insert(arguments.begin(), word);
    arguments.pop_back();  // the program
    try {
      app_.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return UsageMistake(app_, error);
    }
    return "";
  }

  Program program_;
  CLI::App app_;
};

TEST_F(CommandLineTest, ExamplesAreRight) {
  for (const Example& example : AllExamples()) {
    const std::string line(example.line.substr(0, example.line.find_first_of(">|")));
    EXPECT_THAT(MistakeIn(line), IsEmpty()) << line;
    EXPECT_TRUE(program_.run) << line;
    program_.run = {};
  }
  for (const CommandEntry& command : TreeOf(app_).commands) {
    EXPECT_GE(ExamplesOf(command.path).size(), 2u) << command.path;
    EXPECT_NE(command.topic, "Subcommands") << command.path << " has no topic in its help";
  }
}

TEST_F(CommandLineTest, HelpHasTopicsExamplesAndGlobalFlags) {
  const std::string tune = app_.get_subcommand("tune")->help();
  for (const char* part :
       {"Usage: meshwright tune [FLAGS]\n", "\nQuestion:\n", "\nSearch:\n", "\nExamples:\n",
        "\nFlags of every command:\n", "  --output {table,json,csv}"}) {
    EXPECT_THAT(tune, HasSubstr(part));
  }
  EXPECT_EQ(tune.find("--help"), tune.rfind("--help"));
  const std::string show = app_.get_subcommand("study")->get_subcommand("show")->help();
  EXPECT_THAT(show, HasSubstr("Usage: meshwright study show id [FLAGS]\n"));
  EXPECT_THAT(show, HasSubstr("meshwright study show study-0123456789ab\n"));
  EXPECT_THAT(show, HasSubstr("--db TEXT"));
  const std::string root = app_.help();
  EXPECT_THAT(root, HasSubstr("\nPlans:\n  init "));
  EXPECT_THAT(root, HasSubstr("\nShell:\n  completion "));
  EXPECT_THAT(root, Not(HasSubstr("Examples")));
}

struct MistakeCase {
  const char* name;
  const char* line;
  const char* mistake;
};

const MistakeCase kMistakes[] = {
    {"Command", "meshwright tnue --model m.json",
     "error: tnue: meshwright has no such command; did you mean tune?"},
    {"CommandOfAGroup", "meshwright study crate",
     "error: crate: meshwright study has no such command; did you mean create?"},
    {"HelpAsAWord", "meshwright help",
     "error: help: meshwright has no such command; did you mean meshwright --help?"},
    {"Flag", "meshwright tune --modle m.json",
     "error: --modle: meshwright tune has no such flag; did you mean --model?"},
    {"FlagWithAValue", "meshwright tune --model m --workload w --node=8",
     "error: --node: meshwright tune has no such flag; did you mean --nodes?"},
    {"GlobalFlag", "meshwright chip list --ouptut json",
     "error: --ouptut: meshwright chip list has no such flag; did you mean --output?"},
    {"ValueOfASet", "meshwright chip list --output jsno",
     "error: --output = jsno; must be one of table, json, csv; did you mean \"json\"?"},
    {"Shell", "meshwright completion tcsh", "error: shell = tcsh; must be one of bash, zsh, fish"},
    {"Number", "meshwright tune --model m --workload w --top five",
     "error: --top = five; must be a whole number"},
    {"TrueOrFalse", "meshwright history measurements --retracted maybe",
     "error: --retracted = maybe; must be true or false"},
    {"Unit", "meshwright tune --model m --workload w --tokens 2Q",
     "error: --tokens = 2Q; must be a number with M, B, T or no unit, such as 300B"},
    {"Range", "meshwright evaluate --cases - --workers 0",
     "error: --workers = 0; must be in the range 1 to 1024"},
    {"NoValue", "meshwright tune --model", "error: --model needs a value"},
    {"Argument", "meshwright chip list a100", "error: a100: meshwright chip list takes no"},
    {"NoCommand", "meshwright history", "error: meshwright history needs a command: list, show"},
    {"Required", "meshwright tune --workload w",
     "error: --model is required\nmeshwright tune --help"},
    {"HalfAWorkload", "meshwright tune --model m --sequence-length 4096",
     "error: --workload, or --sequence-length with --global-batch-size, is required"},
};

class UsageMistakeTest : public CommandLineTest, public testing::WithParamInterface<MistakeCase> {};

TEST_P(UsageMistakeTest, SaysWhatWasMeant) {
  const std::string mistake = MistakeIn(GetParam().line);
  EXPECT_THAT(mistake, HasSubstr(GetParam().mistake));
  EXPECT_THAT(mistake, HasSubstr(" --help says more"));
}

INSTANTIATE_TEST_SUITE_P(All, UsageMistakeTest, testing::ValuesIn(kMistakes),
                         [](const auto& row) { return row.param.name; });

TEST_F(CommandLineTest, CompletionKnowsCommandsFlagsAndValues) {
  const CommandEntry root = TreeOf(app_);
  const std::string bash = BashCompletion(root);
  EXPECT_THAT(bash, HasSubstr("'meshwright study') commands='list show"));
  EXPECT_THAT(bash, HasSubstr("    --output) COMPREPLY=($(compgen -W 'table json csv' "));
  EXPECT_THAT(bash, Not(HasSubstr("    --pareto)")));  // it takes no value
  EXPECT_THAT(ZshCompletion(root), HasSubstr("#compdef meshwright\n"));
  EXPECT_THAT(FishCompletion(root),
              HasSubstr("complete -c meshwright -n '__fish_seen_subcommand_from tune' -l pareto "));
}

TEST_F(CommandLineTest, ManualIsMadeFromTheFlags) {
  const CommandEntry root = TreeOf(app_);
  const CommandEntry& tune = root.commands[1];
  const std::string page = ManPage(tune, root, "meshwright 1.2.3\ncommit: abc");
  EXPECT_THAT(page, HasSubstr(".TH MESHWRIGHT-TUNE 1 \"\" \"meshwright 1.2.3\" \"Meshwright\"\n"));
  EXPECT_THAT(page, HasSubstr(".SS Question\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-model\\fR \\fITEXT\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH FLAGS OF EVERY COMMAND\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXAMPLES\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
