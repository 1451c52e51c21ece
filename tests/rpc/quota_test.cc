// Limits of what the studies of one caller may take, over gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/rpc/client/client.h"
#include "tests/rpc/callers_file.h"
#include "tests/rpc/questions.h"
#include "tests/rpc/server_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

class QuotaTest : public testing::Test {
 protected:
  static ServerOptions Options() {
    return {.callers = CallersWithRoles({"submitter", "operator"}),
            .quota = {.open_study_count = 2}};
  }
  Client As(const std::string& role) {
    return *Client::Connect(running_.server().address(), {.token = role + "-token"});
  }
  absl::StatusOr<v1::CreateStudyResponse> Create(const std::string& role, const std::string& id) {
    v1::CreateStudyRequest request;
    request.set_study_id(id);
    request.set_request_id("request of " + id);
    *request.mutable_question() = BigQuestion();
    return As(role).CreateStudy(request);
  }
  std::vector<std::string> StudiesOf(const std::string& creator) {
    v1::ListStudiesRequest request;
    request.mutable_filter()->set_creator(creator);
    const auto page = As("submitter").ListStudies(request);
    EXPECT_TRUE(page.ok()) << page.status();
    std::vector<std::string> ids;
    for (const v1::Study& study : page->studies()) ids.push_back(study.id());
    return ids;
  }
  RunningServer running_{Options()};
};

TEST_F(QuotaTest, ACallerHasSoManyOpenStudiesAndNoMore) {
  const auto first = Create("submitter", "first");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->study().creator(), "submitter");
  EXPECT_EQ(first->study().chip(), "nvidia-a100-sxm4-80gb");
  ASSERT_TRUE(Create("submitter", "second").ok());
  const auto third = Create("submitter", "third");
  EXPECT_TRUE(absl::IsResourceExhausted(third.status())) << third.status();
  EXPECT_EQ(Reason(third.status()), "STUDY_QUOTA");
  // Nothing is left of it, a repeated request gets its study, and another caller has room.
  EXPECT_TRUE(absl::IsNotFound(As("submitter").GetStudy("third").status()));
  EXPECT_TRUE(Create("submitter", "second").ok());
  EXPECT_TRUE(Create("operator", "other").ok());
  EXPECT_THAT(StudiesOf("submitter"), testing::UnorderedElementsAre("first", "second"));
  EXPECT_THAT(StudiesOf("operator"), ElementsAre("other"));
  EXPECT_THAT(StudiesOf(""), IsEmpty());
  // A study that has ended makes room: the second one waits, so it ends at once.
  ASSERT_TRUE(As("submitter").CancelStudy("second").ok());
  EXPECT_TRUE(Create("submitter", "third").ok());
}

TEST_F(QuotaTest, TheLimitsOfACallerAreLimitsOfTheServer) {
  std::vector<std::string> limits;
  const auto info = As("submitter").GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  for (const v1::ServerLimit& limit : info->limits()) {
    if (limit.scope() == "caller") {
      limits.push_back(limit.name() + " " + std::to_string(limit.value()));
    }
  }
  EXPECT_THAT(limits, ElementsAre("caller_study_count 2"));
}

// A study whose jobs may take some device seconds.
v1::CreateStudyRequest StudyWithJobs(const std::string& folder, double device_seconds) {
  v1::CreateStudyRequest request;
  *request.mutable_question() = SmallQuestion();
  v1::TrialRequest& trials = *request.mutable_question()->mutable_trials();
  trials.set_launcher("local");
  trials.set_max_trials(1);
  trials.set_max_device_seconds(device_seconds);
  trials.mutable_job()->set_folder(folder);
  trials.mutable_job()->add_command("/bin/false");
  return request;
}

TEST(DeviceTimeQuotaTest, AStudyBeyondItIsRefusedBeforeItRuns) {
  RunningServer running(ServerOptions{.jobs = {.takes_stated_jobs = true},
                                      .quota = {.device_time_per_day = Seconds(3600)}},
                        /*allows_jobs=*/true);
  const std::string folder = running.File("jobs");
  const auto refused = running.client().CreateStudy(StudyWithJobs(folder, 3601));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(Reason(refused.status()), "DEVICE_TIME_QUOTA");
  EXPECT_EQ(running.client().ListStudies({})->studies_size(), 0);
  const auto created = running.client().CreateStudy(StudyWithJobs(folder, 3600));
  EXPECT_TRUE(created.ok()) << created.status();
  const auto info = running.client().GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  std::vector<std::string> launchers;
  for (const v1::LauncherLoad& load : info->launchers()) {
    EXPECT_TRUE(load.is_allowed());
    EXPECT_TRUE(load.has_running_job_count());
    launchers.push_back(load.launcher());
  }
  EXPECT_THAT(launchers, ElementsAre("local", "slurm", "kubernetes"));
}

TEST(PoolsTest, AStudyIsFoundByTheChipOfEachPool) {
  RunningServer running;
  v1::CreateStudyRequest request;
  *request.mutable_question() = SmallQuestion();
  v1::NodePool& other = *request.mutable_question()->mutable_cluster()->add_pools();
  other = request.question().cluster().pools(0);
  other.set_name("b");
  other.set_chip("nvidia-h100-sxm5-80gb");
  const auto created = running.client().CreateStudy(request);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_THAT(created->study().other_chips(), ElementsAre("nvidia-h100-sxm5-80gb"));
  for (const char* const chip : {"nvidia-a100-sxm4-80gb", "nvidia-h100-sxm5-80gb", "h100"}) {
    v1::ListStudiesRequest list;
    list.mutable_filter()->set_chip(chip);
    const bool is_known = std::string(chip) != "h100";
    EXPECT_EQ(running.client().ListStudies(list)->studies_size(), is_known ? 1 : 0) << chip;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
