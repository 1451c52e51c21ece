#include "server/plugins/model_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "recorder/recorder.h"
#include "search_space/digest/sha256.h"
#include "server/convert/convert.h"
#include "server/engine/engine.h"
#include "server/plugins/manifest.h"
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
  const v1::ListCostModelsResponse list = ListCostModels(manifests_);
  for (const v1::CostModel& model : list.cost_models()) {
    lines.push_back(model.name() + " " + model.kind() + " " + model.file() + " " + model.state());
    EXPECT_EQ(model.sha256().size(), 64u);
  }
  EXPECT_THAT(lines, ElementsAre("a program ok ok", "b program gone missing",
                                 "c program shut not_executable", "d library other changed",
                                 "e library shut ok"));
}

TEST_F(ModelListTest, IsTheSameFromAServer) {
  const Knowledge knowledge = LoadKnowledge("").value();
  const auto engine =
      Engine::Start(Recorder::Open({.path = folder_.path() + "/history.db"}).value(), knowledge,
                    ProtobufCodec(knowledge))
          .value();
  const auto server =
      Server::Start(
          {.listen = "127.0.0.1:0", .list_cost_models = [&] { return ListCostModels(manifests_); }},
          knowledge, *engine)
          .value();
  Client client = Client::Connect(server->address()).value();
  const auto served = client.ListCostModels();
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(served->SerializeAsString(), ListCostModels(manifests_).SerializeAsString());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
