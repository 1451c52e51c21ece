#include "server/rpc/calls/caller_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/digest/sha256.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

KnownCallers List(const std::string& names) {
  std::string text;
  for (const char name : names) {
    text += std::string(1, name) + " submitter sha256:" + Sha256Hex(std::string(1, name)) + "\n";
  }
  return KnownCallers(*CallerList::Parse(text, "f"));
}

EndedCall Call(const std::string& caller, absl::StatusCode code = absl::StatusCode::kOk) {
  return {.method = "ListStudies", .code = code, .role = Role::kSubmitter, .caller = caller};
}

// Returns "name calls refused failed", with a star if the caller is not on the list.
std::string Text(const v1::Caller& caller) {
  return caller.name() + " " + std::to_string(caller.call_count()) + " " +
         std::to_string(caller.refused_count()) + " " + std::to_string(caller.failed_count()) +
         (caller.is_listed() ? "" : " *");
}

std::vector<std::string> Texts(const v1::ListCallersResponse& response) {
  std::vector<std::string> texts;
  for (const v1::Caller& caller : response.callers()) texts.push_back(Text(caller));
  return texts;
}

TEST(CallerCountsTest, EachCallerHasItsOwnCounts) {
  KnownCallers callers = List("ba");
  CallerCounts counts(1000);
  counts.NoteCall(Call("b"), 2000);
  counts.NoteCall(Call("b", absl::StatusCode::kPermissionDenied), 3000);
  counts.NoteCall(Call("b", absl::StatusCode::kNotFound), 4000);
  const v1::ListCallersResponse listed = counts.List(&callers);
  EXPECT_TRUE(listed.has_list());
  EXPECT_EQ(listed.counted_from(), "1970-01-01T00:00:01.000Z");
  EXPECT_THAT(Texts(listed), ElementsAre("a 0 0 0", "b 3 1 1"));
  EXPECT_EQ(listed.callers(0).last_call_time(), "");
  EXPECT_EQ(listed.callers(1).last_call_time(), "1970-01-01T00:00:04.000Z");
  EXPECT_EQ(listed.callers(1).role(), "submitter");

  // b has been taken off the list.
  callers.Replace(*CallerList::Parse("a viewer cert:a\n", "f"));
  EXPECT_THAT(Texts(counts.List(&callers)), ElementsAre("a 0 0 0", "b 3 1 1 *"));
}

// Nobody can fill the table with names that the server does not know.
TEST(CallerCountsTest, StrangersAreOnlyCounted) {
  const KnownCallers callers = List("a");
  CallerCounts counts(0);
  counts.NoteCall({.method = "ListStudies", .code = absl::StatusCode::kUnauthenticated}, 1);
  EXPECT_EQ(counts.List(&callers).unknown_call_count(), 1);
  EXPECT_THAT(Texts(counts.List(&callers)), ElementsAre("a 0 0 0"));
}

TEST(CallerCountsTest, WithoutAListThereAreNoCallers) {
  CallerCounts counts(0);
  counts.NoteCall({.method = "ListStudies"}, 1);
  const v1::ListCallersResponse listed = counts.List(nullptr);
  EXPECT_FALSE(listed.has_list());
  EXPECT_TRUE(listed.callers().empty());
  EXPECT_EQ(listed.unknown_call_count(), 0);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
