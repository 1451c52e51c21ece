#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "server/rpc/client/client.h"
#include "tests/files/temporary_folder.h"
#include "tests/rpc/daemon.h"
#include "tests/rpc/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;

// Returns the states that a study goes through until its end.
std::vector<std::string> StatesToTheEnd(Client& client, const std::string& id) {
  std::vector<std::string> states;
  v1::WatchStudyRequest request;
  request.set_study_id(id);
  const absl::Status status = client.WatchStudy(request,
                                                [&](const v1::WatchStudyResponse& event) {
                                                  if (event.kind() == "state") {
                                                    states.push_back(event.state());
                                                  }
                                                  return true;
                                                },
                                                {.timeout = std::chrono::seconds(240)});
  EXPECT_TRUE(status.ok()) << status;
  return states;
}

void WaitUntilRunning(Client& client, const std::string& id) {
  v1::WatchStudyRequest request;
  request.set_study_id(id);
  const absl::Status status = client.WatchStudy(
      request, [](const v1::WatchStudyResponse& event) { return event.state() != "running"; },
      {.timeout = std::chrono::seconds(240)});
  EXPECT_TRUE(status.ok()) << status;
}

std::string Create(Client& client, const v1::TuneRequest& question) {
  v1::CreateStudyRequest request;
  *request.mutable_question() = question;
  const auto study = client.CreateStudy(request);
  EXPECT_TRUE(study.ok()) << study.status();
  return study.ok() ? study->study().id() : "";
}

TEST(Crash, AKilledServerRunsItsStudiesAgain) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"--db", folder.File("history.db"), "--log-level",
                                          "error"};
  // There are enough studies that the kill hits the server at work, however long it took to get
  // here.
  std::vector<std::string> ids;
  {
    Daemon daemon(flags);
    auto client = Client::Connect(daemon.address());
    ASSERT_TRUE(client.ok()) << client.status();
    for (int i = 0; i < 6; ++i) ids.push_back(Create(*client, BigQuestion()));
    WaitUntilRunning(*client, ids.front());
    EXPECT_EQ(daemon.Stop(SIGKILL), 128 + SIGKILL);
  }
  Daemon daemon(flags);
  auto client = Client::Connect(daemon.address());
  ASSERT_TRUE(client.ok()) << client.status();
  for (const std::string& id : ids) {
    EXPECT_EQ(StatesToTheEnd(*client, id).back(), "succeeded") << id;
  }
  // The number of studies that had run by then depends on the machine.
  EXPECT_THAT(StatesToTheEnd(*client, ids.back()), Contains("interrupted"));
  const auto studies = client->ListStudies({});
  ASSERT_TRUE(studies.ok()) << studies.status();
  EXPECT_EQ(studies->studies_size(), 6);
  for (const v1::Study& study : studies->studies()) EXPECT_EQ(study.state(), "succeeded");
  EXPECT_EQ(daemon.Stop(SIGTERM), 0);
}

TEST(Crash, AServerThatIsToldToStopLeavesItsStudyToTheNext) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {"--db", folder.File("history.db"), "--log-level",
                                          "error"};
  std::string id;
  {
    Daemon daemon(flags);
    auto client = Client::Connect(daemon.address());
    ASSERT_TRUE(client.ok()) << client.status();
    id = Create(*client, BigQuestion());
    WaitUntilRunning(*client, id);
    EXPECT_EQ(daemon.Stop(SIGINT), 0);
  }
  Daemon daemon(flags);
  auto client = Client::Connect(daemon.address());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(StatesToTheEnd(*client, id).back(), "succeeded");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
