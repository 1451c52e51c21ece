#include "cli/input/whole_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

class WholeFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::ptrdiff_t FileCount() const {
    return std::distance(
        std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path()),
        std::filesystem::directory_iterator());
  }

  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) /
                                      testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string path_ = root_ / "folder" / "a.json";
};

TEST_F(WholeFileTest, MakesItsFolder) {
  ASSERT_TRUE(WriteWholeFile(path_, "one", false).ok());
  EXPECT_EQ(Read(), "one");
}

TEST_F(WholeFileTest, IsReplacedOnlyWhenAsked) {
  ASSERT_TRUE(WriteWholeFile(path_, "one", false).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(WriteWholeFile(path_, "two", false)));
  EXPECT_EQ(Read(), "one");
  ASSERT_TRUE(WriteWholeFile(path_, "three", true).ok());
  EXPECT_EQ(Read(), "three");
  EXPECT_EQ(FileCount(), 1);  // no part is left
}

TEST_F(WholeFileTest, SaysWhatItCannotWrite) {
  std::filesystem::create_directories(root_);
  std::ofstream(root_ / "folder") << "a file stands in the way";
  const absl::Status status = WriteWholeFile(path_, "one", true);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find(path_), std::string::npos);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
