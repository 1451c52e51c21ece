#include "server/tuner/import/text/shell_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "server/tuner/import/text/shell_arithmetic.h"
#include "server/tuner/import/text/shell_variables.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

ShellScript Read(const std::string& text, const std::map<std::string, std::string>& stated = {}) {
  return ReadShellScript(text, "run.sh", stated, [](const std::string& path) {
    return path == "config.sh" ? absl::StatusOr<std::string>("TP=4\n")
                               : absl::NotFoundError(path + "; there is none");
  });
}

// Returns the words of the last command, with marks as the names of what has no value.
std::vector<std::string> LastWords(const std::string& text,
                                   const std::map<std::string, std::string>& stated = {}) {
  std::vector<std::string> words;
  const ShellScript script = Read(text, stated);
  if (script.commands.empty()) return words;
  for (const std::string& word : script.commands.back().words) words.push_back(Shown(word));
  return words;
}

struct Case {
  std::string name;
  std::string text;
  std::vector<std::string> words;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// The words are what bash gives to the command.
const Case kCases[] = {
    {"Variables", "A=1\nB=$A$A\nrun ${B} $A/x", {"run", "11", "1/x"}},
    {"Defaults", "A=\nrun ${A:-8} ${A-9}x ${C:-\"a b\"}", {"run", "8", "x", "a", "b"}},
    {"Alternative", "A=1\nrun ${A:+yes} ${B:+no}", {"run", "yes"}},
    {"Quotes", "A='x y'\nrun \"$A\" $A 'a $A' \"\\$A\"", {"run", "x y", "x", "y", "a $A", "$A"}},
    {"Lists",
     "A=(--a 1 # one\n  \"--b 2\")\nA+=(--c)\nrun ${A[@]}",
     {"run", "--a", "1", "--b", "2", "--c"}},
    {"ListsInQuotes", "A=(a \"b c\")\nrun \"${A[@]}\"", {"run", "a", "b c"}},
    {"EmptyList", "A=()\nrun \"${A[@]}\" ${A[@]} x", {"run", "x"}},
    {"Continuation", "run a \\\n  b\\\nc \\ \n d", {"run", "a", "bc", "d"}},
    {"Arithmetic", "N=3\nrun $(( (N + 1) * $N / 2 )) $((8%${N}))", {"run", "6", "2"}},
    {"If",
     "A=2\nif [ $A -eq 1 ]; then B=x; elif [[ $A == 2 ]]; then B=y; else B=z; fi\nrun $B",
     {"run", "y"}},
    {"IfInside",
     "A=1\nif [ $A = 2 ]; then if [ $A = 1 ]; then B=x; fi; B=y; fi\nrun a$B",
     {"run", "a$B"}},
    {"AndOr",
     "A=1\nif [ -n \"$A\" ] && [ ! $A -gt 3 ] || [ $A = q ]; then B=y; fi\nrun $B",
     {"run", "y"}},
    {"Shortcut", "A=1\n[ $A -eq 1 ] && B=x\n[ $A -eq 1 ] || B=y\nrun $B", {"run", "x"}},
    {"Case",
     "A=13b\ncase $A in\n 7b) B=1;;\n 13*|14b) B=2;;\n *) B=3;;\nesac\nrun $B",
     {"run", "2"}},
    {"Loop", "for i in 1 2; do A=$i; done\nrun x", {"run", "x"}},
    {"Eval", "C=\"run a\n b\"\neval \"$C | tee log\"", {"tee", "log"}},
    {"Source", "source config.sh\nrun $TP", {"run", "4"}},
    {"Pipe", "run a 2>&1 > log", {"run", "a"}},
    {"Environment", "A=1 run $B", {"run", "$B"}},
    {"Unresolved", "A=$1\nB=$(nproc --all)\nrun $A x$B", {"run", "$1", "x$(nproc --all)"}},
    {"Export", "export A=1 B=\"2 3\"\nrun $A $B", {"run", "1", "2", "3"}},
    {"AppendText", "A=\"--a\"\nA+=\" --b\"\nrun $A", {"run", "--a", "--b"}},
    {"CommandInAWord", "bash -c \"python train.py --a 1\"", {"python", "train.py", "--a", "1"}},
};

class ShellWordsTest : public testing::TestWithParam<Case> {};

TEST_P(ShellWordsTest, AreThoseOfAShell) {
  EXPECT_EQ(LastWords(GetParam().text), GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(All, ShellWordsTest, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

TEST(ShellScriptTest, StatedValuesWin) {
  EXPECT_THAT(LastWords("N=1\nrun $N $M", {{"N", "16"}, {"M", "2"}}),
              ElementsAre("run", "16", "2"));
}

TEST(ShellScriptTest, HereDocumentsAreFiles) {
  const ShellScript script =
      Read("S=3\ncat <<EOT > $HOME.json\n{\"stage\": $S}\nEOT\n", {{"HOME", "a"}});
  ASSERT_EQ(script.files.size(), 1U);
  EXPECT_EQ(script.files[0].name, "a.json");
  EXPECT_EQ(script.files[0].text, "{\"stage\": 3}\n");
}

TEST(ShellScriptTest, BatchOptions) {
  const ShellScript script =
      Read("#SBATCH --nodes=4\n#SBATCH --gpus-per-node 8\nrun $SLURM_NNODES");
  EXPECT_EQ(script.batch.at("--nodes"), "4");
  EXPECT_EQ(script.batch.at("--gpus-per-node"), "8");
  EXPECT_EQ(script.commands.at(0).words.at(1), "4");
}

TEST(ShellScriptTest, NamesWhatItDoesNotFollow) {
  const ShellScript script = Read(
      "if [ -f x ]; then A=1; fi\nsource other.sh\nfor i in 1; do A=2; done\ncase $B in x) A=3;; "
      "esac\n");
  EXPECT_THAT(script.notes,
              ElementsAre("run.sh line 1: a condition that cannot be decided here; taken as false",
                          "run.sh line 2: other.sh is not read: other.sh; there is none",
                          "run.sh line 3: a loop; skipped",
                          "run.sh line 4: a case of $B, which has no value here; skipped"));
  EXPECT_THAT(Read("A=1\n[ $A = 1 ] && B=2\n").notes, IsEmpty());
}

// Sources that are cut anywhere do no harm.
TEST(ShellScriptTest, AnyPrefixIsRead) {
  const std::string text =
      "A=(a \"b ${C:-x}\" # c\n)\nif [[ $A == \"b\" ]]; then x $((1+(2*3))) `y` 'z'; fi\n"
      "case $A in a|b) run <<EOF > f\n$A\nEOF\n;; esac\nfor i in 1; do :; done\n";
  for (std::size_t length = 0; length <= text.size(); ++length) Read(text.substr(0, length));
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// A text that doubles with every line stops growing, and its uses stay marks.
TEST(ShellScriptTest, GrowthIsBounded) {
  const auto words = LastWords("A=12345678\n" + Times(60, "A=$A$A\n") + "run $A");
  ASSERT_THAT(words, SizeIs(2));
  EXPECT_LE(words[1].size(), 65U << 20U);
  EXPECT_THAT(words[1], HasSubstr("$A"));
}

TEST(ShellScriptTest, NestingIsBounded) {
  constexpr int kDeep = 50'000;
  Read("run " + Times(kDeep, "${A:-") + Times(kDeep, "}"));
  Read("run " + Times(kDeep, "\"$("));
  Read("A=x\n" + Times(kDeep, "[ $A = x ] && ") + "run");
  Read("if [ " + Times(kDeep, "! ") + "$A ]; then run; fi");
  EXPECT_THAT(Read(Times(kDeep, "if [ 1 = 1 ]; then\n")).notes,
              ElementsAre("run.sh line 257: nested deeper than 256 levels; the rest is not read"));
}

TEST(ShellScriptTest, SourcedTextIsBounded) {
  const std::string text = Times(100, "source itself.sh\n");
  const auto script = ReadShellScript(text, "run.sh", {}, [&text](const std::string& /*path*/) {
    return absl::StatusOr<std::string>(text);
  });
  EXPECT_THAT(script.notes.back(), HasSubstr("more than 16777216 bytes with all that is sourced"));
}

// A pattern of many stars takes fnmatch a time that doubles with each.
TEST(ShellScriptTest, PatternsOfManyStarsAreUndecided) {
  const std::string stars = Times(30, "*a");
  const auto script =
      Read("A=" + Times(200, "a") + "\nif [[ $A == " + stars + "b ]]; then run; fi\n");
  EXPECT_THAT(script.notes, SizeIs(1));
}

TEST(ShellArithmeticTest, WholeNumbers) {
  EXPECT_EQ(ShellArithmetic("2+3*4"), 14);
  EXPECT_EQ(ShellArithmetic(" (2+3) * -4 "), -20);
  EXPECT_EQ(ShellArithmetic("7/2%2"), 1);  // 3 % 2
  EXPECT_EQ(ShellArithmetic("1/0"), std::nullopt);
  EXPECT_EQ(ShellArithmetic("1 > 0"), std::nullopt);
  EXPECT_EQ(ShellArithmetic("999999999999*999999999999"), std::nullopt);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
