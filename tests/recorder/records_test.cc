#include "recorder/records.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  StudyState state;
  std::string_view word;
  bool is_terminal;
};
constexpr Case kCases[] = {
    {StudyState::kQueued, "queued", false},
    {StudyState::kRunning, "running", false},
    {StudyState::kInterrupted, "interrupted", false},
    {StudyState::kCancelling, "cancelling", false},
    {StudyState::kSucceeded, "succeeded", true},
    {StudyState::kFailed, "failed", true},
    {StudyState::kCancelled, "cancelled", true},
};
class StudyStateTest : public testing::TestWithParam<Case> {};

TEST_P(StudyStateTest, HasOneWordBothWays) {
  EXPECT_EQ(Word(GetParam().state), GetParam().word);
  EXPECT_EQ(ParseChoice<StudyState>(GetParam().word), GetParam().state);
  EXPECT_EQ(IsTerminal(GetParam().state), GetParam().is_terminal);
}

INSTANTIATE_TEST_SUITE_P(All, StudyStateTest, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.word); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
