#include "cli/reports/launch_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

v1::RankedPlan WithHosts(int lines) {
  v1::RankedPlan plan;
  (*plan.mutable_exports())["flagscale"] = "a: 1\n";
  v1::Launch& launch = (*plan.mutable_launches())["flagscale"];
  launch.set_command("run");
  launch.set_file_name("plan.yaml");
  v1::ConfigFile& hosts = *launch.add_other_files();
  hosts.set_name("hostfile");
  std::string text;
  for (int i = 1; i <= lines; ++i) text += "h" + std::to_string(i) + "\n";
  hosts.set_text(text);
  return plan;
}

// A host file has a line for each node, which a report need not show. 50 - 8 = 42.
TEST(LaunchLinesTest, ShortensLongFiles) {
  const std::string text = ExportText(WithHosts(50), "flagscale", 100);
  EXPECT_THAT(text, HasSubstr("\nh8\n(42 more lines; --save and --output json have them)\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nh9\n")));
}

TEST(LaunchLinesTest, KeepsShortFilesWhole) {
  const std::string text = ExportText(WithHosts(40), "flagscale", 100);
  EXPECT_THAT(text, HasSubstr("\nh40\n"));
  EXPECT_THAT(text, Not(HasSubstr("more lines")));
}

TEST(LaunchLinesTest, ShortFormsHaveSeveralSettingsInALine) {
  v1::RankedPlan plan = WithHosts(1);
  std::string& text = (*plan.mutable_exports())["flagscale"];
  text = "system:\n  tensor: 2\n  precision:\n    bf16: true\nmodel:\n  layers: 32\n";
  EXPECT_EQ(ExportText(plan, "flagscale", 60, FileForm::kShort),
            "plan.yaml, hostfile, in short (--save DIR writes them,\n--verbose shows them):\n"
            "  system: tensor: 2, precision: bf16: true, model:\n  layers: 32\nrun\n");
  text = "[model]\nconverters = [\"fp8\"]\n\n[training]\nbatch = 2\nlength = 8\n";
  EXPECT_THAT(
      ExportText(plan, "flagscale", 100, FileForm::kShort),
      HasSubstr("\n  [model] converters = [\"fp8\"]; [training] batch = 2, length = 8\nrun\n"));
  text = "stages = [" + std::string(80, '1') + ", " + std::string(80, '2') + "]\nlength = 8\n";
  EXPECT_THAT(ExportText(plan, "flagscale", 200, FileForm::kShort),
              HasSubstr("\n  stages = [" + std::string(80, '1') + ", ..., length = 8\nrun\n"));
  text = "{\n  \"a\": {\n    \"b\": [1, 2],\n    \"c\": 3\n  }\n}\n";
  EXPECT_THAT(ExportText(plan, "flagscale", 100, FileForm::kShort),
              HasSubstr("\n  { \"a\": { \"b\": [1, 2], \"c\": 3 } }\nrun\n"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
