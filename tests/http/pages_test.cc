#include "server/http/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/report_page.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::string FieldOf(const HttpResponse& response, std::string_view name) {
  for (const auto& [field, value] : response.fields) {
    if (field == name) return value;
  }
  return "";
}

// A build without Node has no pages, which the first of them says.
bool HasPages() { return AnswerPage({.path = "/"}).status == 200; }

TEST(PagesTest, AProgramWithoutPagesSaysSo) {
  const HttpResponse first = AnswerPage({.path = "/"});
  ASSERT_THAT(first.status, AnyOf(200, 404));
  EXPECT_THAT(first.body,
              HasSubstr(first.status == 200 ? "<title>Meshwright</title>" : "without the pages"));
}

TEST(PagesTest, APageComesPlainOrPacked) {
  if (!HasPages()) GTEST_SKIP() << "built without Node";
  const HttpResponse plain = AnswerPage({.path = "/assets/index.css"});
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.content_type, "text/css; charset=utf-8");
  EXPECT_THAT(plain.body, HasSubstr("color-scheme"));
  EXPECT_EQ(FieldOf(plain, "Content-Encoding"), "");

  const HttpResponse packed = AnswerPage({.path = "/assets/index.css", .accepts_gzip = true});
  EXPECT_THAT(packed.fields, Contains(Pair("Content-Encoding", "gzip")));
  EXPECT_EQ(packed.body.substr(0, 2), "\x1f\x8b");
  EXPECT_LT(packed.body.size(), plain.body.size());
  EXPECT_NE(FieldOf(packed, "ETag"), FieldOf(plain, "ETag"));
}

TEST(PagesTest, AReaderThatHasThePageGetsNoBody) {
  if (!HasPages()) GTEST_SKIP() << "built without Node";
  const std::string tag = FieldOf(AnswerPage({.path = "/"}), "ETag");
  ASSERT_NE(tag, "");
  const HttpResponse again = AnswerPage({.path = "/", .if_none_match = tag});
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.body, "");
  EXPECT_EQ(AnswerPage({.path = "/", .if_none_match = "\"other\""}).status, 200);
}

TEST(PagesTest, NothingElseIsServed) {
  for (const char* path : {"/etc/passwd", "/../index.html", "/assets/../index.html", "/assets/", "",
                           "/index.html/", "/assets/nothing.js"}) {
    EXPECT_EQ(AnswerPage({.path = path}).status, 404) << path;
  }
}

TEST(ReportPageTest, HoldsThePagesAndTheAnswers) {
  if (!HasPages()) {
    EXPECT_EQ(ReportPage({}).status().code(), absl::StatusCode::kFailedPrecondition);
    return;
  }
  const auto page = ReportPage({{"v1/server", "{\"a\": \"</script>\"}\n"}, {"v1/b", "[]"}});
  ASSERT_TRUE(page.ok()) << page.status();
  // No answer can end the element that it stands in.
  EXPECT_THAT(*page,
              HasSubstr("{\n\"v1/server\":{\"a\": \"\\u003c/script>\"},\n\"v1/b\":[]\n}</script>"));
  EXPECT_THAT(*page, HasSubstr("content=\"default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(*page, HasSubstr("color-scheme"));
  EXPECT_THAT(*page, Not(HasSubstr("@@answers@@")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
