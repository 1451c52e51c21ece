#include "recorder/store/file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "search_space/base/status.h"
#include "tests/files/temporary_folder.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct Case {
  const char* name;
  std::uint32_t type;  // from statfs(2)
  bool is_network;
};
constexpr Case kCases[] = {
    {"Ext4", 0xEF53, false},      {"Xfs", 0x58465342, false},     {"Btrfs", 0x9123683E, false},
    {"Tmpfs", 0x01021994, false}, {"Overlay", 0x794C7630, false}, {"Nfs", 0x6969, true},
    {"Smb2", 0xFE534D42, true},   {"Cifs", 0xFF534D42, true},     {"Lustre", 0x0BD00BD0, true},
    {"Gpfs", 0x47504653, true},   {"BeeGfs", 0x19830326, true},
};
class FileSystemTypeTest : public testing::TestWithParam<Case> {};

TEST_P(FileSystemTypeTest, RefusesNetworkFileSystems) {
  const absl::Status status = CheckFileSystemType("x.db", GetParam().type);
  EXPECT_EQ(status.ok(), !GetParam().is_network);
  if (status.ok()) return;
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(Reason(status), "NETWORK_FILE_SYSTEM");
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemTypeTest, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(FileSystemTest, AcceptsTheTemporaryFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(CheckLocalFileSystem(folder.File("none.db")).ok());
}

TEST(FileSystemTest, ResolvesLinksToOneName) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("real.db", folder.File("link.db"));
  const auto real = ResolveStorePath(folder.File("real.db"), true);
  ASSERT_TRUE(real.ok()) << real.status();
  { std::ofstream(folder.File("real.db")) << ""; }
  EXPECT_EQ(*ResolveStorePath(folder.File("link.db"), true), *real);
}

TEST(FileSystemTest, RefusesAFolderAndAnEmptyName) {
  const TemporaryFolder folder;
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveStorePath(folder.File(""), true).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ResolveStorePath("", true).status()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
