#include "cli/input/json_text.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/starting_files.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "server/convert/convert.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;

struct TextCase {
  const char* name;
  const char* path;
  std::string text;
  std::string json;  // or a part of the error, after "!"
};

const TextCase kTextCases[] = {
    {"PlainJson", "a.json", "{\"url\": \"http://x /* y */\", \"b\": [1, 2.50]}\n",
     "{\"url\": \"http://x /* y */\", \"b\": [1, 2.50]}\n"},
    {"TextThatIsNoJson", "a.json", "hello: world", "hello: world"},
    // Places in later errors stay those of the file.
    {"LineComment", "a.json", "{ // \"x\n\"a\\\"//\": 1}", "{      \n\"a\\\"//\": 1}"},
    {"BlockComment", "-", "{/* a\n*/\"b\": 1}", "{    \n  \"b\": 1}"},
    {"OpenComment", "a", "{} /* x", "{} /* x"},
    {"Yaml", "a.yaml",
     "# note\na: 1\nb: [x, 2.5, true, ~, 'true', \"5\"]\nc:\n  d: 80_000\n  e: 1e-5\n",
     R"({"a": 1, "b": ["x", 2.5, true, null, "true", "5"], "c": {"d": 80000, "e": 1e-5}})"},
    {"YamlWords", "a.yml", "a: yes\nb: 0x10\nc: 010\nd: \"q\\\"\\n\"\ne: 1_\n",
     R"({"a": "yes", "b": "0x10", "c": "010", "d": "q\"\n", "e": "1_"})"},
    {"YamlFromStdin", "-", "# note\n\nname: a\n", R"({"name": "a"})"},
    {"YamlDocument", "conf", "---\na: 1\n", R"({"a": 1})"},
    {"Aliases", "a.yaml", "a: &x {b: 1}\nc: *x\n", R"({"a": {"b": 1}, "c": {"b": 1}})"},
    {"EmptyYaml", "a.yaml", "# nothing\n", "{}"},
    {"NotYaml", "a.yaml", "a: 1\nb: [\n", "!not YAML; line 3, column 1: "},
    {"TwiceInYaml", "a.yaml", "a: 1\nb: 2\na: 3\n", "!line 3: \"a\" is given twice"},
    {"TwoDocuments", "a.yaml", "a: 1\n---\nb: 2\n", "!line 3: a second document"},
    {"OwnTag", "a.yaml", "a: !!python/none x\n", "!line 1: tag tag:yaml.org,2002:python/none"},
    {"Deep", "a.yaml", "a: " + std::string(70, '[') + std::string(70, ']'),
     "!nested deeper than 64 levels"},
    {"EndlessAlias", "a.yaml", "a: &x [*x]\n", "!nested deeper than 64 levels"},
    {"ManyAliases", "a.yaml",
     "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
     "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
     "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n",
     "!aliases repeat more than 100000 values"},
};

class JsonTextTest : public testing::TestWithParam<TextCase> {};

TEST_P(JsonTextTest, IsJsonOrAMistake) {
  const TextCase& row = GetParam();
  const auto json = AsJson(row.text, row.path);
  if (!row.json.starts_with('!')) {
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_EQ(*json, row.json);
    return;
  }
  ASSERT_FALSE(json.ok());
  EXPECT_THAT(std::string(json.status().message()), HasSubstr(row.json.substr(1)));
}

INSTANTIATE_TEST_SUITE_P(All, JsonTextTest, testing::ValuesIn(kTextCases),
                         [](const auto& row) { return row.param.name; });

TEST(OwnJsonTest, KnowsOurKeysFromThoseOfFrameworks) {
  const auto& plan = *v1::Plan::descriptor();
  EXPECT_EQ(OwnJson("tensor_parallel: 2\n", "p.yaml", plan), R"({"tensor_parallel": 2})");
  EXPECT_TRUE(OwnJson("tensor_parallel: 2\npipeline: 4\n", "p.yaml", plan).has_value());
  EXPECT_TRUE(OwnJson("{\"tensor_parallel\": 2} // mine", "p.json", plan).has_value());
  // Megatron's YAML shares a key with a plan.
  EXPECT_FALSE(OwnJson("sequence_parallel: true\nnum_layers: 2\nbf16: true\n", "m.yaml", plan));
  EXPECT_FALSE(OwnJson("tensor_model_parallel_size: 8\nsequence_parallel: true\n", "m.yaml", plan));
  EXPECT_FALSE(OwnJson("per_device_batch_size: 1\nmicro_batch_size: 1\n", "maxtext.yaml", plan));
  EXPECT_FALSE(OwnJson(R"({"tensor_parallel_degree": 2, "micro_batch_size": 1})", "p.json", plan));
  EXPECT_FALSE(OwnJson("dataset: mine\nlora_rank: 8\n", "other.yaml", plan).has_value());
  // One right key is enough: the error names the others.
  EXPECT_TRUE(OwnJson("tp: 8\npp: 4\ncp: 2\nmicro_batch_size: 1\n", "p.yaml", plan).has_value());
  EXPECT_TRUE(OwnJson("{}", "p.json", plan).has_value());
  EXPECT_TRUE(OwnJson(R"({"tp": 2})", "p.json", plan).has_value());
  const auto& whole = *v1::EvaluateCase::descriptor();
  EXPECT_TRUE(
      OwnJson("model: {name: m}\nseed: 1\nlaunch: x\nplan: {}\n", "c.yaml", whole).has_value());
  EXPECT_FALSE(OwnJson("model: {tensor_model_parallel_size: 2}\ntrain: {}\n", "b.yaml", whole));
  EXPECT_FALSE(OwnJson("[1]", "p.json", plan).has_value());
  EXPECT_FALSE(OwnJson("#!/bin/bash\ntorchrun a.py\n", "run.sh", plan).has_value());
  EXPECT_FALSE(OwnJson(R"({"zero_optimization": {}})", "ds.json", plan).has_value());
}

// Returns the text with the fields that it leaves out. A note begins with "# " and a word.
std::string Uncommented(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(' ');
    const std::string rest = at == std::string::npos ? "" : line.substr(at);
    const bool is_note = rest == "#" || (rest.starts_with("# ") && !rest.starts_with("#  "));
    if (rest.starts_with('#') && !is_note) line.erase(at, 1);
    all += line + "\n";
  }
  return all;
}

// Adds the names of a message's fields that the text does not have as keys.
void AddMissing(const google::protobuf::Descriptor& type, const std::string& text,
                std::vector<std::string>& missing) {
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& field = *type.field(i);
    if (text.find(field.name() + ":") == std::string::npos) missing.push_back(field.full_name());
    if (field.message_type() != nullptr) AddMissing(*field.message_type(), text, missing);
  }
}

TEST(StartingFilesTest, AreAQuestion) {
  v1::TuneRequest request;
  google::protobuf::Message* const parts[] = {request.mutable_model(), request.mutable_workload(),
                                              request.mutable_cluster()};
  ASSERT_EQ(StartingFiles().size(), std::size(parts));
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    const auto json = AsJson(std::string(StartingFiles()[i].text), StartingFiles()[i].name);
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_THAT(ParseJson(*json, "", *parts[i]), IsEmpty());
  }
  const auto knowledge = LoadKnowledge("");
  ASSERT_TRUE(knowledge.ok());
  EXPECT_TRUE(FromWire(request, *knowledge).ok());
}

TEST(StartingFilesTest, HaveEveryField) {
  const v1::Model model;
  const v1::Workload workload;
  const v1::Cluster cluster;
  const google::protobuf::Message* const parts[] = {&model, &workload, &cluster};
  for (std::size_t i = 0; i < std::size(parts); ++i) {
    const StartingFile& file = StartingFiles()[i];
    const std::string all = Uncommented(file.text);
    const auto json = AsJson(all, file.name);
    ASSERT_TRUE(json.ok()) << file.name << ": " << json.status() << "\n" << all;
    const std::unique_ptr<google::protobuf::Message> part(parts[i]->New());
    EXPECT_THAT(ParseJson(*json, "", *part), IsEmpty()) << *json;
    std::vector<std::string> missing;
    AddMissing(*part->GetDescriptor(), all, missing);
    EXPECT_THAT(missing, IsEmpty());
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
