#include "server/tuner/export/config_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/tuner/export/read_config.h"

namespace meshwright {
namespace {

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

TEST(ConfigTextTest, ReadersGiveItBack) {
  EXPECT_EQ(ReadToml(TomlText(Sample())), nlohmann::json(Sample()));
  EXPECT_EQ(ReadYaml(YamlText(Sample())), nlohmann::json(Sample()));
  EXPECT_EQ(nlohmann::json::parse(JsonText(Sample())), nlohmann::json(Sample()));
}

}  // namespace
}  // namespace meshwright
