#include "server/auth/callers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "search_space/base/status.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::HasSubstr;

// The digests of "secret" and "other".
constexpr char kSecret[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOther[] = "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

TEST(CallersTest, AreKnownByTokenOrCertificate) {
  const auto callers = CallerList::Parse(
      std::string("# who\n\nci submitter sha256:") + kSecret + "\nops\tadmin  cert:ops.example\r\n",
      "f");
  ASSERT_TRUE(callers.ok()) << callers.status();
  EXPECT_EQ(callers->OfToken("secret")->name, "ci");
  EXPECT_EQ(callers->OfToken("secret")->role, Role::kSubmitter);
  EXPECT_FALSE(callers->OfToken("secret ").has_value());
  EXPECT_FALSE(callers->OfToken("").has_value());
  EXPECT_EQ(callers->OfCertificate("ops.example")->role, Role::kAdmin);
  EXPECT_FALSE(callers->OfCertificate("OPS.example").has_value());
}

// Each line that is wrong is named by its number. Its text is not repeated, because it may be a
// token that should have been a digest.
TEST(CallersTest, MistakesAreNamedByLine) {
  const std::string digest = std::string(" sha256:") + kSecret;
  const auto callers =
      CallerList::Parse("a viewer plain-token\nb boss" + digest + "\nc viewer\nd admin" + digest +
                            "\ne admin" + digest + "\n",
                        "f");
  const auto violations = FieldViolations(callers.status());
  ASSERT_EQ(violations.size(), 4U);
  EXPECT_EQ(violations[0].field, "callers line 1");
  EXPECT_THAT(violations[0].description, HasSubstr("must be sha256:"));
  EXPECT_THAT(violations[0].description, Not(HasSubstr("plain-token")));
  EXPECT_THAT(violations[1].description, HasSubstr("viewer, submitter, operator or admin"));
  EXPECT_THAT(violations[2].description, HasSubstr("must have a name, a role"));
  EXPECT_THAT(violations[3].field, "callers line 5");
  EXPECT_THAT(violations[3].description, HasSubstr("earlier line"));
  EXPECT_THAT(std::string(CallerList::Parse("# nobody\n", "f").status().message()),
              HasSubstr("names no caller"));
}

TEST(CallersTest, TheFileBelongsToItsOwner) {
  const TemporaryFolder folder;
  const std::string path = folder.File("callers");
  std::ofstream(path) << "ci viewer sha256:" << kOther << "\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  EXPECT_EQ(CallerList::Load(path)->OfToken("other")->name, "ci");
  std::filesystem::permissions(path, std::filesystem::perms(0666));
  EXPECT_THAT(std::string(CallerList::Load(path).status().message()),
              AllOf(HasSubstr(path), HasSubstr("others than its owner may write it")));
  EXPECT_THAT(std::string(CallerList::Load(folder.File("absent")).status().message()),
              HasSubstr("cannot be read"));
}

TEST(TokenTest, ComesAsBearerOrAsAPassword) {
  EXPECT_EQ(TokenOf("Bearer secret"), "secret");
  EXPECT_EQ(TokenOf("bearer secret"), "secret");
  EXPECT_EQ(TokenOf("Basic YW55Om15OnNlY3JldA=="), "my:secret");  // any:my:secret
  for (const char* other : {"", "Bearer", "Digest a", "Basic YW55", "Basic !"}) {
    EXPECT_FALSE(TokenOf(other).has_value()) << other;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
