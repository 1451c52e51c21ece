#include "server/tuner/export/text/config_text.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/tuner/import/text/config_settings.h"
#include "server/tuner/import/text/setting.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

nlohmann::ordered_json Sample() {
  nlohmann::ordered_json config;
  config["zeta"] = 1;
  config["table"]["ratio"] = 0.5;
  config["table"]["inner"]["names"] = {"a", "b c"};
  config["table"]["is_on"] = true;
  config["alpha"] = "1f1b";
  config["rows"] = {{1, 2}, {3, 4}};
  config["word"] = "no";
  config["path"] = "conf/plan.yaml";
  return config;
}

TEST(ConfigTextTest, Yaml) {
  EXPECT_EQ(YamlText(Sample()), R"(zeta: 1
table:
  ratio: 0.5
  inner:
    names: [a, "b c"]
  is_on: true
alpha: "1f1b"
rows: [[1, 2], [3, 4]]
word: "no"
path: conf/plan.yaml
)");
}

// Values of a table come before its inner tables, as TOML wants it.
TEST(ConfigTextTest, Toml) {
  EXPECT_EQ(TomlText(Sample()), R"(zeta = 1
alpha = "1f1b"
rows = [[1, 2], [3, 4]]
word = "no"
path = "conf/plan.yaml"

[table]
ratio = 0.5
is_on = true

[table.inner]
names = ["a", "b c"]
)");
}

// The readers of the importers give every value back.
TEST(ConfigTextTest, ReadersGiveItBack) {
  using Values = std::map<std::string, std::string>;
  const auto values = [](const absl::StatusOr<std::vector<Setting>>& settings) {
    Values read;
    for (const Setting& setting : settings.value()) read[setting.key] = setting.value;
    return read;
  };
  const Values expected = {
      {"zeta", "1"},           {"table.ratio", "0.5"},    {"table.inner.names", R"(["a","b c"])"},
      {"table.is_on", "true"}, {"alpha", "1f1b"},         {"rows", "[[1,2],[3,4]]"},
      {"word", "no"},          {"path", "conf/plan.yaml"}};
  EXPECT_EQ(values(TomlSettings(TomlText(Sample()), "a.toml")), expected);
  EXPECT_EQ(values(YamlSettings(YamlText(Sample()), "a.yaml")), expected);
  EXPECT_EQ(values(JsonSettings(JsonText(Sample()), "a.json")), expected);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
