#include "cli/local/local_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/process/owner.h"
#include "server/tuner/question/resolved_study.h"
#include "tests/files/temporary_folder.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// No process has this number, which is above Linux's largest, 4194304.
constexpr char kDeadOwner[] = "999999999:1";

class LocalStoreTest : public testing::Test {
 protected:
  [[nodiscard]] std::string Path() const { return folder_.File("history.db"); }

  const TemporaryFolder folder_;
};

struct ShownCase {
  StudyState stored;
  std::string owner;
  std::string shown;
};

TEST_F(LocalStoreTest, StudiesOfDeadProcessesAreShownAsTheNextWriterMakesThem) {
  const ShownCase cases[] = {
      {StudyState::kQueued, kDeadOwner, "interrupted"},
      {StudyState::kRunning, kDeadOwner, "interrupted"},
      {StudyState::kCancelling, kDeadOwner, "cancelled"},
      {StudyState::kInterrupted, kDeadOwner, "interrupted"},
      {StudyState::kSucceeded, kDeadOwner, "succeeded"},
      {StudyState::kQueued, OwnOwner(), "queued"},
      {StudyState::kRunning, OwnOwner(), "running"},
      {StudyState::kCancelling, OwnOwner(), "cancelling"},
  };
  {
    auto recorder = Recorder::Open({.path = Path()});
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    for (std::size_t i = 0; i < std::size(cases); ++i) {
      const auto inserted = recorder->InsertStudy(
          {.id = std::to_string(i), .state = cases[i].stored, .owner = cases[i].owner});
      ASSERT_TRUE(inserted.ok()) << inserted.status();
    }
  }
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    const auto study = GetLocalStudy(Path(), std::to_string(i));
    ASSERT_TRUE(study.ok()) << study.status();
    EXPECT_EQ(study->study().state(), cases[i].shown) << i;
    EXPECT_EQ(study->study().outcome(), cases[i].shown == "cancelled" ? "cancelled" : "") << i;
  }
}

// A caller who does not record does not upgrade the store, and is told that nothing was learnt.
TEST_F(LocalStoreTest, AnOlderStoreThatTeachesNothingIsToldOf) {
  ASSERT_TRUE(Recorder::Open({.path = Path()}).ok());
  {
    std::fstream file(Path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(63);  // the last byte of user_version (sqlite.org/fileformat2.html, 1.3)
    file.put(1);
  }
  testing::internal::CaptureStderr();
  const auto history = LocalHistory(Path(), Known(), std::nullopt);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("the answer does not learn from the store"),
                             HasSubstr("has schema version 1, this program reads")));
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_FALSE(history->read);
  // A missing store is likely to be mistyped, unless it is the default one (cli_case_test).
  testing::internal::CaptureStderr();
  EXPECT_TRUE(LocalHistory(Path() + ".none", Known(), std::nullopt).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(".none' does not exist"));
}

TEST_F(LocalStoreTest, AdviceIsGivenOnce) {
  std::ofstream(Path()) << std::string(4096, 'x');
  const auto study =
      BeginLocalStudy(Path(), ResolveStudy({.question = TinyQuestion()}, Known()).value(), Known());
  EXPECT_EQ(Reason(study.status()), "FOREIGN_STORE");
  const std::string message(study.status().message());
  EXPECT_EQ(message.find("--db"), message.rfind("--db")) << message;
  EXPECT_THAT(message, HasSubstr("--no-record"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
