#include "server/http/request_checks.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  std::string name;
  std::string host;
  std::optional<std::string> origin;
  std::string reason;  // empty: allowed
};

class RequestChecksTest : public testing::TestWithParam<Case> {};

TEST_P(RequestChecksTest, OnlyThisMachineAndItsOwnPages) {
  const absl::Status status = CheckOrigin({.host = GetParam().host, .origin = GetParam().origin});
  EXPECT_EQ(status.ok() ? "" : Reason(status), GetParam().reason) << status;
}

const Case kCases[] = {
    {"Address", "127.0.0.1:8080", std::nullopt, ""},
    {"Name", "localhost:8080", std::nullopt, ""},
    {"NoPort", "localhost", std::nullopt, ""},
    {"OtherLoopback", "127.1.2.3:80", std::nullopt, ""},
    {"Version6", "[::1]:8080", std::nullopt, ""},
    {"OwnPage", "127.0.0.1:8080", "http://127.0.0.1:8080", ""},
    {"OwnPageBehindTls", "localhost:8443", "https://localhost:8443", ""},
    {"ForeignName", "evil.example:8080", std::nullopt, "FOREIGN_HOST"},
    {"NameLikeAnAddress", "127.evil.example:8080", std::nullopt, "FOREIGN_HOST"},
    {"OtherAddress", "10.0.0.1:8080", std::nullopt, "FOREIGN_HOST"},
    {"NoHost", "", std::nullopt, "FOREIGN_HOST"},
    {"ForeignPage", "127.0.0.1:8080", "http://evil.example", "FOREIGN_ORIGIN"},
    {"OtherPort", "127.0.0.1:8080", "http://127.0.0.1:9090", "FOREIGN_ORIGIN"},
    {"NoOriginAtAll", "127.0.0.1:8080", "null", "FOREIGN_ORIGIN"},
};
INSTANTIATE_TEST_SUITE_P(All, RequestChecksTest, testing::ValuesIn(kCases),
                         [](const auto& tested) { return tested.param.name; });

TEST(RequestCheckErrorsTest, AreClean) {
  EXPECT_NE(std::string(CheckOrigin({.host = "a\xff\x1b"}).message()).find("host 'a? ' is not"),
            std::string::npos);
  const absl::Status origin = CheckOrigin({.host = "localhost", .origin = "http://\xff"});
  EXPECT_EQ(std::string(origin.message()), "a page of 'http://?' may not read this server");
}

TEST(RequestMethodTest, AReadOnlyServerSaysHowToChangeThat) {
  const absl::Status status = ReadOnly({.method = "PATCH"});
  EXPECT_EQ(Reason(status), "READ_ONLY");
  EXPECT_EQ(status.message(),
            "method PATCH: nothing can be changed here over HTTP; meshwrightd --http-writes lets "
            "studies be changed");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
