#include "server/plugins/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "search_space/base/status.h"
#include "server/plugins/wire/checksum.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::SizeIs;

const std::string kDigits(64, '0');

std::string With(const std::string& fields) {
  return R"({"name": "acme-1", "program": "acme", "sha256": ")" + kDigits + "\"" + fields + "}";
}

TEST(ManifestTest, ReadsAllFields) {
  const TemporaryFolder folder;
  folder.Write("acme.json", With(R"(, "arguments": ["--fast"], "environment": {"LICENCE": "x"},
      "memory_limit_bytes": 67108864, "cpu_limit_seconds": 2, "file_limit_bytes": 3,
      "open_file_limit": 4, "process_limit": 6, "batch_deadline_milliseconds": 5)"));
  folder.Write("notes.txt", "not a manifest");
  const auto manifests = LoadManifests(folder.path());
  ASSERT_TRUE(manifests.ok()) << manifests.status();
  ASSERT_THAT(*manifests, SizeIs(1));
  const ModelManifest& acme = manifests->front();
  EXPECT_EQ(acme.name, "acme-1");
  EXPECT_EQ(acme.program, folder.path() + "/acme");
  EXPECT_EQ(acme.arguments, std::vector<std::string>{"--fast"});
  EXPECT_EQ(acme.environment.at("LICENCE"), "x");
  EXPECT_EQ(acme.limits.memory_bytes, 64 << 20);
  EXPECT_EQ(acme.limits.cpu_seconds, 2);
  EXPECT_EQ(acme.limits.file_bytes, 3);
  EXPECT_EQ(acme.limits.open_files, 4);
  EXPECT_EQ(acme.limits.processes, 6);
  EXPECT_EQ(acme.limits.batch_deadline.count(), 5);
}

struct Case {
  std::string name;
  std::string text;
  std::string message;
};

const Case kCases[] = {
    {"NoJson", "{\n1", "parse error at line 2, column 1"},
    {"NoObject", "[]", "[]; must be a JSON object"},
    {"UnknownField", With(R"(, "pogram": 1)"),
     "pogram = 1; is not a field of a manifest, which are arguments, "},
    {"BothKinds", With(R"(, "library": "x.so")"),
     "program = 'acme', and library = 'x.so'; exactly one of the two"},
    {"BadName", R"({"name": "A B", "program": "x", "sha256": ")" + kDigits + "\"}", "lower-case"},
    {"NoChecksum", R"({"name": "a", "program": "x"})", "sha256 = \"\"; must be the 64"},
    {"BadChecksum", R"({"name": "a", "program": "x", "sha256": "AB"})", R"("AB"; must be the 64)"},
    {"NameNoText", With(R"(, "library": 7)"), "library = 7; must be a string"},
    {"EnvironmentNoObject", With(R"(, "environment": [1])"),
     "environment = [1]; must be an object"},
    {"EnvironmentNoText", With(R"(, "environment": {"A": 5})"),
     "environment.A = 5; must be a string"},
    {"ArgumentsOfLibrary",
     R"({"name": "a", "library": "x", "arguments": ["y"], "sha256": ")" + kDigits + "\"}",
     R"(["y"]; must be absent for a library)"},
    {"NegativeLimit", With(R"(, "file_limit_bytes": -1)"),
     "-1; must be a whole number of at least 1"},
    {"TextLimit", With(R"(, "cpu_limit_seconds": "1")"), R"("1"; must be a whole number)"},
    {"MemoryTooSmall", With(R"(, "memory_limit_bytes": 67108863)"),
     "67108863; must be a whole number of at least 67108864"},
    {"DeadlineTooLong", With(R"(, "batch_deadline_milliseconds": 9223372036854775807)"),
     "9223372036854775807; must be a whole number of at least 1 and at most 3600000"},
    {"MoreThanSigned", With(R"(, "open_file_limit": 18446744073709551615)"), "at most 1048576"},
    {"MemoryTooLarge", With(R"(, "memory_limit_bytes": 17592186044417)"),
     "17592186044417; must be a whole number of at least 67108864 and at most 17592186044416"},
    {"EscapeInAnArgument", With(R"(, "arguments": ["a", "\u001b[2J"])"),
     R"(bad.json: arguments[1] = "\u001b[2J"; must have no control characters, but byte 1)"},
    {"NulInTheEnvironment", With(R"(, "environment": {"A": "b\u0000"})"),
     R"(bad.json: environment.A = "b\u0000"; must have no control characters, but byte 2)"},
    {"LineInAName", With(R"(, "environment": {"A\nB": "b"})"),
     R"(bad.json: environment.A B = "A\u000aB"; must have no control characters)"},
    {"ArgumentsNoList", With(R"(, "arguments": "x")"), R"("x"; must be a list of strings)"},
};

class ManifestMistakeTest : public testing::TestWithParam<Case> {};

TEST_P(ManifestMistakeTest, IsNamed) {
  const TemporaryFolder folder;
  folder.Write("bad.json", GetParam().text);
  const auto manifests = LoadManifests(folder.path());
  ASSERT_TRUE(absl::IsInvalidArgument(manifests.status()));
  EXPECT_THAT(std::string(manifests.status().message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(manifests.status().message()), HasSubstr("bad.json"));
}

INSTANTIATE_TEST_SUITE_P(All, ManifestMistakeTest, testing::ValuesIn(kCases),
                         [](const auto& row) { return row.param.name; });

TEST(ManifestTest, TwoOfOneNameAreRefused) {
  const TemporaryFolder folder;
  folder.Write("a.json", With(""));
  folder.Write("b.json", With(""));
  EXPECT_THAT(std::string(LoadManifests(folder.path()).status().message()), HasSubstr("taken"));
}

TEST(ManifestTest, AFolderIsNoManifest) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/dir.json");
  const absl::Status status = LoadManifests(folder.path()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("dir.json"));
}

TEST(ManifestTest, NoFolderIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(LoadManifests("/nowhere/at/all").status()));
}

TEST(ManifestTest, ChecksumOfKnownText) {
  const TemporaryFolder folder;
  folder.Write("abc", "abc");
  // From FIPS 180-2, appendix B.1.
  EXPECT_EQ(FileChecksum(folder.path() + "/abc").value(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ManifestTest, AChangedProgramIsNotStarted) {
  const TemporaryFolder folder;
  folder.Write("acme", "other");
  const absl::Status status =
      VerifyChecksum({.name = "acme", .program = folder.path() + "/acme", .sha256 = kDigits});
  EXPECT_EQ(Reason(status), "COST_MODEL_CHANGED");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
