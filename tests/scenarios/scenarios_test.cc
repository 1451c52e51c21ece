#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "meshwright/v1/estimate.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "tests/files/source_folder.h"

namespace meshwright {
namespace {

// Tests whole answers to whole requests: <name>.request.json is a v1.TuneRequest, and
// <name>.golden.json is the answer of the program (v1.TuneResult, v1.Infeasible or v1.CaseError).
// --update_golden rewrites the answers; review their difference like code.

constexpr std::string_view kRequestEnding = ".request.json";

struct Scenario {
  std::string name;
  std::filesystem::path request;
  std::filesystem::path golden;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Scenario> Scenarios() {
  std::vector<Scenario> scenarios;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceFolder() / "tests/scenarios")) {
    const std::string file = entry.path().filename();
    if (!file.ends_with(kRequestEnding)) continue;
    const std::string name = file.substr(0, file.size() - kRequestEnding.size());
    scenarios.push_back({.name = name,
                         .request = entry.path(),
                         .golden = entry.path().parent_path() / (name + ".golden.json")});
  }
  std::sort(scenarios.begin(), scenarios.end(),
            [](const Scenario& a, const Scenario& b) { return a.name < b.name; });
  return scenarios;
}

absl::StatusOr<StudyAnswer> Ask(const std::string& json, const Knowledge& knowledge) {
  v1::TuneRequest wire;
  std::vector<FieldViolation> mistakes = ParseJson(json, "", wire);
  ASSIGN_OR_RETURN(const ResolvedStudy study, FromWire(wire, knowledge, std::move(mistakes)));
  return RunStudy(study, knowledge, {});
}

std::string AnswerTo(const std::string& json, const Knowledge& knowledge) {
  constexpr JsonStyle kStyle = {.multiline = true};
  const absl::StatusOr<StudyAnswer> answer = Ask(json, knowledge);
  if (!answer.ok()) return PrintJson(ToCaseError(answer.status()), kStyle) + "\n";
  const auto* const result = std::get_if<StudyResult>(&*answer);
  if (result == nullptr) return PrintJson(ToWire(std::get<Infeasible>(*answer)), kStyle) + "\n";
  v1::TuneResult wire = ToWire(*result);
  // This is wall time; under a sanitizer it may need another power of ten.
  wire.mutable_search()->set_seconds(10);
  return PrintJson(wire, kStyle) + "\n";
}

class ScenarioTest : public testing::Test {
 public:
  ScenarioTest(Scenario scenario, bool updates)
      : scenario_(std::move(scenario)), updates_(updates) {}

  void TestBody() override {
    const auto knowledge = LoadKnowledge("");
    ASSERT_TRUE(knowledge.ok()) << knowledge.status();
    const std::string answer = AnswerTo(ReadFile(scenario_.request), *knowledge);
    if (updates_) {
      std::ofstream(scenario_.golden) << answer;
      return;
    }
    EXPECT_EQ(answer, ReadFile(scenario_.golden)) << "if this is meant, run with --update_golden";
  }

 private:
  Scenario scenario_;
  bool updates_;
};

}  // namespace
}  // namespace meshwright

// A dash in a test's name ends the positive part of --gtest_filter, so ctest would run nothing and
// pass.
std::string TestName(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool updates = argc > 1 && std::string_view(argv[1]) == "--update_golden";
  for (const meshwright::Scenario& scenario : meshwright::Scenarios()) {
    testing::RegisterTest(
        "ScenarioTest", TestName(scenario.name).c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [=]() -> testing::Test* { return new meshwright::ScenarioTest(scenario, updates); });
  }
  const int result = RUN_ALL_TESTS();
  return testing::UnitTest::GetInstance()->test_to_run_count() > 0 ? result : 1;
}
