#include "server/plugins/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "recorder/recorder.h"
#include "search_space/digest/sha256.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/plugins/manifest.h"
#include "server/plugins/stored_check.h"
#include "server/rpc/client/client.h"
#include "server/rpc/server.h"
#include "server/tuner/question/problem.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

// A model in each state.
class ModelListTest : public testing::Test {
 protected:
  ModelListTest() {
    for (const std::string name : {"ok", "shut", "other"}) folder_.Write(name, "text");
    const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
    std::filesystem::permissions(folder_.path() + "/ok", mode | std::filesystem::perms::owner_exec);
    std::filesystem::permissions(folder_.path() + "/shut", mode);
    const std::string sum = Sha256Hex("text");
    manifests_ = {{.name = "a", .program = folder_.path() + "/ok", .sha256 = sum},
                  {.name = "b", .program = folder_.path() + "/gone", .sha256 = sum},
                  {.name = "c", .program = folder_.path() + "/shut", .sha256 = sum},
                  {.name = "d", .library = folder_.path() + "/other", .sha256 = Sha256Hex("x")},
                  {.name = "e", .library = folder_.path() + "/shut", .sha256 = sum}};
  }
  const TemporaryFolder folder_;
  std::vector<ModelManifest> manifests_;
};

TEST_F(ModelListTest, SaysInWhichStateTheFilesAreAndNoPath) {
  std::vector<std::string> lines;
  const v1::ListCostModelsResponse list = ListCostModels(folder_.path(), manifests_);
  for (const v1::CostModel& model : list.cost_models()) {
    lines.push_back(model.name() + " " + model.kind() + " " + model.file() + " " + model.state());
    EXPECT_EQ(model.sha256().size(), 64u);
  }
  EXPECT_THAT(lines, ElementsAre("a program ok ok", "b program gone missing",
                                 "c program shut not_executable", "d library other changed",
                                 "e library shut ok"));
}

TEST_F(ModelListTest, HasTheResultOfTheLastCheck) {
  const StoredCheck passed = {.model = "a",
                              .checksum = manifests_[0].sha256,
                              .chip = "nvidia-a100-sxm4-80gb",
                              .time = "2026-11-29T12:00:00.000Z",
                              .passed_count = 25,
                              .skipped_count = 2};
  StoredCheck failed = passed;
  failed.model = "b";
  failed.checksum = Sha256Hex("an earlier one");
  failed.failed = {"determinism", "physics"};
  std::filesystem::create_directory(folder_.path() + "/checks");
  for (const StoredCheck& check : {passed, failed}) {
    const ModelFile file = FileOf(folder_.path(), check);
    EXPECT_EQ(file.path, folder_.path() + "/checks/" + check.model + ".json");
    folder_.Write("checks/" + check.model + ".json", file.text);
    EXPECT_EQ(*LoadCheck(folder_.path(), check.model), check);
  }
  folder_.Write("checks/c.json", "[1, 2]");
  folder_.Write("checks/d.json", FileOf(folder_.path(), passed).text);
  const v1::ListCostModelsResponse list = ListCostModels(folder_.path(), manifests_);
  EXPECT_EQ(list.cost_models(0).check().passed_count(), 25);
  EXPECT_EQ(list.cost_models(0).check().skipped_count(), 2);
  EXPECT_TRUE(list.cost_models(0).check().is_current());
  EXPECT_THAT(list.cost_models(1).check().failed_checks(), ElementsAre("determinism", "physics"));
  EXPECT_FALSE(list.cost_models(1).check().is_current());
  EXPECT_EQ(list.cost_models(2).check().error(), "checks/c.json: is not the result of a check");
  EXPECT_EQ(list.cost_models(3).check().error(),
            "checks/d.json: is of another model than its name says");
  EXPECT_FALSE(list.cost_models(4).has_check());
}

TEST_F(ModelListTest, AFileThatIsNoResultIsNamed) {
  const std::string text = FileOf("", {.model = "a",
                                       .checksum = "c",
                                       .chip = "x",
                                       .time = "2026-11-29T12:00:00.000Z",
                                       .passed_count = 1,
                                       .failed = {"physics"}})
                               .text;
  const auto refusal = [this](const std::string& content) {
    folder_.Write("checks/a.json", content);
    return std::string(LoadCheck(folder_.path(), "a").status().message());
  };
  const auto with = [&text](const std::string& part, const std::string& other) {
    std::string changed = text;
    return changed.replace(changed.find(part), part.size(), other);
  };
  std::filesystem::create_directory(folder_.path() + "/checks");
  EXPECT_EQ(refusal(text), "");
  const std::string kNoResult = "checks/a.json: is not the result of a check";
  for (const std::string& bad :
       {std::string(), with("{", ""), with(R"("chip")", R"("chop")"), with(R"("x")", "[]"),
        with("12:00:00.000Z", "noon"),
        with("2026",
             "\xff\xfe"
             "26"),
        with(": 1,", ": -1,"), with(": 1,", ": 1e99,"), with(R"("physics")", "7")}) {
    EXPECT_EQ(refusal(bad), kNoResult) << bad;
  }
  EXPECT_EQ(refusal(text + std::string(1 << 16, ' ')),
            "checks/a.json: cannot be read, or is too large");
}

TEST_F(ModelListTest, IsTheSameFromAServer) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const auto engine =
      Engine::Start(Recorder::Open({.path = folder_.path() + "/history.db"}).value(), knowledge,
                    ProtobufCodec(knowledge))
          .value();
  const auto server =
      Server::Start(
          {.listen = "127.0.0.1:0",
           .list_cost_models = [&] { return ListCostModels(folder_.path(), manifests_); }},
          knowledge, *engine)
          .value();
  Client client = Client::Connect(server->address()).value();
  const auto served = client.ListCostModels();
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->SerializeAsString(),
            ListCostModels(folder_.path(), manifests_).SerializeAsString());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
