#include "server/process/regular_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(RegularFileTest, ReadsPartsOfTheFileThatWasOpened) {
  const TemporaryFolder folder;
  std::ofstream(folder.File("log")) << "0123456789";
  const auto file = RegularFile::Open(folder.File("log"));
  ASSERT_TRUE(file.has_value());
  std::filesystem::rename(folder.File("log"), folder.File("old"));
  std::ofstream(folder.File("log")) << "another";
  EXPECT_EQ(file->size(), 10);
  EXPECT_EQ(file->Read(2, 3), "234");
  EXPECT_EQ(file->Read(8, 100), "89");
  EXPECT_EQ(file->Read(10, 5), "");
}

TEST(RegularFileTest, OpensNothingElse) {
  const TemporaryFolder folder;
  std::ofstream(folder.File("log")) << "secret";
  std::filesystem::create_symlink(folder.File("log"), folder.File("link"));
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.File("folder"));
  for (const char* const name : {"absent", "link", "pipe", "folder"}) {
    EXPECT_FALSE(RegularFile::Open(folder.File(name)).has_value()) << name;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
