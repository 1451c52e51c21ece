#include "cli/program/field_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "cli/input/input_files.h"
#include "cli/input/stated_names.h"
#include "cli/input/tune_flags.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

const FieldNames& Names() {
  static const FieldNames* const names = new FieldNames{
      {.field = "cluster", .flag = "--cluster", .file = "c.yaml"},
      {.field = "cluster.pools[0].node_count", .flag = "--nodes"},
      {.field = "dimensions", .flag = "--dimension"},
      {.field = "history", .flag = "--history", .file = "h.jsonl"},
      {.field = "model", .flag = "--model", .file = "-"},
  };
  return *names;
}

TEST(UnreadScriptTest, HidesWhatIsMissingWithoutIt) {
  const absl::Status named =
      NamedAsStated(InvalidFields({{"from.devices", "8; and 32 in the cluster"},
                                   {"model", "missing; required"},
                                   {"workload.sequence_length", "missing; required"},
                                   {"cluster", "missing; required"}}),
                    Names());
  EXPECT_THAT(MistakeLines(named),
              ElementsAre("from.devices = 8; and 32 in the cluster", "c.yaml = missing; required"));
  const absl::Status without = NamedAsStated(InvalidFields({{"models", "missing; required"}}), {});
  EXPECT_THAT(MistakeLines(without), ElementsAre("models = missing; required"));
}

struct NameCase {
  const char* name;
  FieldViolation mistake;
  const char* line;
};

const NameCase kNameCases[] = {
    {"Flag", {"cluster.pools[0].node_count", "0; must be >= 1"}, "--nodes = 0; must be >= 1"},
    {"ElementOfAFlag", {"dimensions[1].values", "missing"}, "--dimension = missing"},
    {"FieldOfAFile", {"cluster.pools[1].chip", "x; unknown"}, "c.yaml: pools[1].chip = x; unknown"},
    {"PathOfAFile", {"cluster", "c.yaml; cannot be read"}, "--cluster = c.yaml; cannot be read"},
    {"TextOfAFile", {"cluster", "not JSON"}, "c.yaml = not JSON"},
    {"RowOfAFile", {"history[2].plan.x", "unknown"}, "h.jsonl: row 3: plan.x = unknown"},
    {"WholeRow", {"history[0]", "not JSON"}, "h.jsonl: row 1 = not JSON"},
    {"Stdin", {"model.norm", "a"}, "stdin: norm = a"},
    {"OtherField", {"models.norm", "a"}, "models.norm = a"},
    {"NoField", {"", "a sentence"}, "a sentence"},
    {"WordOfASet",
     {"model.norm", "\"rmsnrm\"; must be one of layernorm, rmsnorm"},
     "stdin: norm = \"rmsnrm\"; must be one of layernorm, rmsnorm; did you mean \"rmsnorm\"?"},
    {"NoCloseWord",
     {"model.norm", "\"xy\"; must be one of layernorm, rmsnorm"},
     "stdin: norm = \"xy\"; must be one of layernorm, rmsnorm"},
};

class FieldNamesTest : public testing::TestWithParam<NameCase> {};

TEST_P(FieldNamesTest, NamesTheFlagOrTheFile) {
  const absl::Status named = NamedAsStated(InvalidFields({GetParam().mistake}), Names());
  EXPECT_THAT(MistakeLines(named), ElementsAre(GetParam().line));
  EXPECT_EQ(named.message(), GetParam().line);
  // Programs match on the path and the reason.
  EXPECT_THAT(FieldViolations(named), ElementsAre(GetParam().mistake));
  EXPECT_EQ(Reason(named), "INVALID_FIELDS");
}

INSTANTIATE_TEST_SUITE_P(All, FieldNamesTest, testing::ValuesIn(kNameCases),
                         [](const auto& row) { return row.param.name; });

TEST(NamedAsStatedTest, KeepsOtherErrorsAndCountsMistakes) {
  const absl::Status other = WithReason(absl::NotFoundError("no study"), "GONE");
  EXPECT_EQ(NamedAsStated(other, Names()), other);
  const absl::Status two = InvalidFields({{"model.norm", "a"}, {"seed", "b"}});
  EXPECT_EQ(NamedAsStated(two, Names()).message(), "2 invalid fields: stdin: norm = a; seed = b");
  EXPECT_THAT(MistakeLines(two), ElementsAre("model.norm = a", "seed = b"));
}

// A flag that is renamed must be renamed in the errors too.
TEST(NamesOfTest, NamesFlagsOfTheCommand) {
  TuneFlags flags;
  flags.question = {.model = "m.json", .workload = "w.json", .framework = "generic"};
  flags.question.cluster = {.chip = "a", .node_count = 1, .devices_per_node = 1};
  flags.question.cluster.nic_gigabits_per_second = 100;
  flags.baseline = "b.json";
  flags.history = "h.jsonl";
  const FieldNames names = NamesOf(flags);
  CLI::App command;
  AddTuneOptions(command, flags);
  EXPECT_GT(names.size(), 20u);
  for (const FieldName& name : names) {
    EXPECT_NE(command.get_option_no_throw(name.flag), nullptr) << name.flag;
  }
}

TEST(NamesOfTest, AFileHasItsOwnFactsOfAPool) {
  const FieldNames names = NamesOf(ClusterFlags{.source = "c.json", .chip = "H100"});
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names.front().file, "c.json");
  EXPECT_EQ(NamesOf(ClusterFlags{.source = "slurm", .chip = "H100"}).size(), 2u);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
