#include "search_space/base/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(InvalidFieldsTest, CarriesEveryViolation) {
  const std::vector<FieldViolation> violations = {{"model.layer_count", "0; must be >= 1"},
                                                  {"cluster.pools", "empty"}};
  const absl::Status status = InvalidFields(violations);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(std::string(status.message()),
            "2 invalid fields: model.layer_count = 0; must be >= 1; cluster.pools = empty");
  EXPECT_EQ(FieldViolations(status), violations);
  EXPECT_EQ(Reason(status), "INVALID_FIELDS");
}

TEST(InvalidFieldsTest, OneViolationNeedsNoCount) {
  const absl::Status status = InvalidFields({{"plan.zero_stage", "4; must be 0, 1, 2 or 3"}});
  EXPECT_EQ(std::string(status.message()), "plan.zero_stage = 4; must be 0, 1, 2 or 3");
}

// A text may hold whatever separates texts elsewhere, including lengths.
TEST(InvalidFieldsTest, ViolationsRoundTrip) {
  const std::vector<FieldViolation> violations = {{"", "the whole input"},
                                                  {"a;b = c", ""},
                                                  {"x", "line\nbreak; \"quotes\""},
                                                  {"", ""},
                                                  {"3:abc", "12:"}};
  const absl::Status status = InvalidFields(violations);
  EXPECT_EQ(FieldViolations(status), violations);
  EXPECT_EQ(FieldViolations(WithReason(status, "OTHER")), violations) << "a reason keeps them";
  EXPECT_EQ(Reason(WithReason(status, "OTHER")), "OTHER");
}

// Found by fuzzing: parsers quote the input, and libraries do too.
TEST(InvalidFieldsTest, TextsAreClean) {
  const absl::Status status = InvalidFields(
      {{"a\x1b[2J", "not JSON; last read: '\xff'"}, {std::string(5000, 'b'), "unknown\nkey"}});
  EXPECT_EQ(FieldViolations(status),
            (std::vector<FieldViolation>{{"a [2J", "not JSON; last read: '?'"},
                                         {std::string(4096, 'b'), "unknown\nkey"}}));
  EXPECT_EQ(std::string(status.message()), "2 invalid fields: a [2J = not JSON; last read: '?'; " +
                                               std::string(4096, 'b') + " = unknown\nkey");
}

TEST(InvalidFieldsTest, ListsTwentyAndCountsTheOthers) {
  const std::vector<FieldViolation> many(300, {"rules", "\"x\"; must be a rule"});
  const absl::Status status = InvalidFields(many);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith("300 invalid fields: rules = "));
  EXPECT_THAT(std::string(status.message()), testing::EndsWith("; 280 more invalid fields"));
  std::vector<FieldViolation> listed = FieldViolations(status);
  ASSERT_EQ(listed.size(), kMaxListedFields + 1);
  EXPECT_EQ(listed.back(), (FieldViolation{"", "280 more invalid fields"}));
  EXPECT_EQ(InvalidFields(listed), status) << "a list that is listed again says the same";

  // Statuses are joined by their lists.
  listed.push_back({"seed", "-1; must be >= 0"});
  EXPECT_EQ(CountFields(listed), 301U);
  EXPECT_EQ(FieldViolations(InvalidFields(listed)).back().description, "281 more invalid fields");
  const std::vector<FieldViolation> one_more(kMaxListedFields + 1, {"rules", "bad"});
  EXPECT_EQ(FieldViolations(InvalidFields(one_more)).back().description, "1 more invalid field");
}

TEST(ReasonTest, IsTheCodeUnlessAttached) {
  EXPECT_EQ(Reason(absl::NotFoundError("x")), "NOT_FOUND");
  EXPECT_EQ(Reason(WithReason(absl::NotFoundError("x"), "UNKNOWN_CHIP")), "UNKNOWN_CHIP");
  EXPECT_THAT(FieldViolations(absl::NotFoundError("x")), testing::IsEmpty());
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError("odd");
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(AssignOrReturnTest, StopsAtTheFirstError) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
