#include "server/engine/queue/quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

constexpr std::int64_t kHourMs = 60 * 60 * 1000;
constexpr std::int64_t kNowMs = kHourMs;

class QuotaTest : public testing::Test {
 protected:
  // Stores a study whose jobs may take some device hours.
  StudyRecord Insert(const std::string& id, std::optional<double> hours, std::int64_t time_ms) {
    StudyRecord study = MakeStudy(id, time_ms);
    study.creator = "ci";
    if (hours.has_value()) study.device_time_limit = Seconds(kSecondsPerHour * *hours);
    EXPECT_TRUE(recorder_.InsertStudy(study).ok());
    return study;
  }
  // Runs a job of some device hours to its end, and then ends its study.
  void RunAndEnd(const StudyRecord& study, double hours) {
    TrialIntent intent = MakeIntent(study.id, "digest");
    intent.launcher = "slurm";
    const auto begun = recorder_.BeginTrial(intent);
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_TRUE(recorder_
                    .FinishTrial({.study_id = study.id,
                                  .trial_number = 1,
                                  .attempt = {.attempt_id = begun->attempt.id,
                                              .fencing_token = begun->attempt.fencing_token,
                                              .outcome = Outcome::kCrash,
                                              .device_time = Seconds(kSecondsPerHour * hours),
                                              .time_ms = study.create_time_ms}})
                    .ok());
    ASSERT_TRUE(recorder_
                    .FinishStudy({.study_id = study.id,
                                  .state = StudyState::kFailed,
                                  .time_ms = study.create_time_ms})
                    .ok());
  }
  Recorder recorder_ = *Recorder::Open({.path = ":memory:"});
};

TEST_F(QuotaTest, OpenStudiesAreCounted) {
  const StudyQuota quota = {.open_study_count = 2};
  EXPECT_TRUE(CheckQuota(quota, recorder_, Insert("a", {}, 1), kNowMs).ok());
  EXPECT_TRUE(CheckQuota(quota, recorder_, Insert("b", {}, 2), kNowMs).ok());
  const absl::Status refused = CheckQuota(quota, recorder_, Insert("c", {}, 3), kNowMs);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(Reason(refused), "STUDY_QUOTA");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'ci' that have not ended = 3 with this one; must be at most 2"));
  StudyRecord other = MakeStudy("d", 4);
  ASSERT_TRUE(recorder_.InsertStudy(other).ok());
  EXPECT_TRUE(CheckQuota(quota, recorder_, other, kNowMs).ok());
}

TEST_F(QuotaTest, DeviceTimeIsCountedForADay) {
  const StudyQuota quota = {.device_time_per_day = Seconds(kSecondsPerHour * 10)};
  RunAndEnd(Insert("ended", 6, 1), 4);
  // 4 taken, 3 promised, 3 asked for; a study without jobs asks for nothing.
  EXPECT_TRUE(CheckQuota(quota, recorder_, Insert("a", 3, kHourMs), kNowMs).ok());
  EXPECT_TRUE(CheckQuota(quota, recorder_, Insert("b", 3, kHourMs), kNowMs).ok());
  const StudyRecord last = Insert("c", 1, kHourMs);
  const absl::Status refused = CheckQuota(quota, recorder_, last, kNowMs);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(Reason(refused), "DEVICE_TIME_QUOTA");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("max_device_seconds = 3600; the jobs of 'ci' took 4 device hours in the "
                        "last 24 hours, and those of open studies may take 7 more with this one; "
                        "together must be at most 10"));
  EXPECT_TRUE(CheckQuota(quota, recorder_, Insert("search", {}, kHourMs), kNowMs).ok());
  // A day after its end, the first job no longer counts.
  EXPECT_FALSE(CheckQuota(quota, recorder_, last, 24 * kHourMs).ok());
  EXPECT_TRUE(CheckQuota(quota, recorder_, last, 24 * kHourMs + 1).ok());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
