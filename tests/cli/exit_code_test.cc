#include "cli/program/exit_code.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  std::string name;
  absl::Status status;
  int exit_code;
};

// The table of the contract, and cases in which the reason says more than the code.
const Case kCases[] = {
    {"done", absl::OkStatus(), 0},
    {"internal", absl::InternalError(""), 1},
    {"unknown", absl::UnknownError(""), 1},
    {"invalid", InvalidFields({{.field = "model", .description = "missing"}}), 3},
    {"several_pools", WithReason(absl::UnimplementedError(""), "MIXED_CLUSTER_SEARCH"), 3},
    {"infeasible", WithReason(absl::FailedPreconditionError(""), "NO_FEASIBLE_PLAN"), 4},
    {"not_found", absl::NotFoundError(""), 5},
    {"unknown_chip", WithReason(absl::InvalidArgumentError(""), "UNKNOWN_CHIP"), 5},
    {"damaged_export", WithReason(absl::DataLossError(""), "DAMAGED_EXPORT"), 3},
    {"exists", absl::AlreadyExistsError(""), 6},
    {"ended", WithReason(absl::FailedPreconditionError(""), "STUDY_ENDED"), 6},
    {"quota", absl::ResourceExhaustedError(""), 7},
    {"unavailable", absl::UnavailableError(""), 8},
    {"foreign_store", WithReason(absl::FailedPreconditionError(""), "FOREIGN_STORE"), 8},
    {"store_full", WithReason(absl::ResourceExhaustedError(""), "STORE_FULL"), 8},
    {"store_needs_server", WithReason(absl::FailedPreconditionError(""), "STORE_NEEDS_SERVER"), 8},
    {"forbidden_store", WithReason(absl::PermissionDeniedError(""), "STORE_IO"), 8},
    {"deadline", absl::DeadlineExceededError(""), 9},
    {"interrupted", absl::CancelledError(""), 130},
};

class ExitCodeTest : public testing::TestWithParam<Case> {};

TEST_P(ExitCodeTest, FollowsTheContract) {
  EXPECT_EQ(ExitCode(GetParam().status), GetParam().exit_code);
}

// The words of docs/answers.md.
TEST(ExitReasonTest, EachCodeHasAWord) {
  const std::pair<int, std::string_view> words[] = {
      {0, "done"},        {1, "internal"},  {2, "usage"},          {3, "invalid_input"},
      {4, "infeasible"},  {5, "not_found"}, {6, "conflict"},       {7, "quota"},
      {8, "unavailable"}, {9, "deadline"},  {10, "trials_failed"}, {130, "interrupted"}};
  for (const auto& [code, word] : words) EXPECT_EQ(ExitReason(code), word);
}

INSTANTIATE_TEST_SUITE_P(All, ExitCodeTest, testing::ValuesIn(kCases),
                         [](const auto& c) { return c.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
