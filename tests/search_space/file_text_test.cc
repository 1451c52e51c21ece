#include "search_space/base/file_text.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(FileTextTest, TheRestOfALongFile) {
  const std::string text(200'000, 'x');  // more than is read at once
  std::istringstream file("line\n" + text);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(RestOf(file), text);
  EXPECT_FALSE(file.bad());
}

TEST(FileTextTest, AFileThatIsAbsent) {
  std::ifstream file("/no/such/file");
  EXPECT_EQ(RestOf(file), "");
}

// A folder can be opened like a file, but reads of it fail; so does the memory at address 0.
TEST(FileTextTest, ReadsThatFail) {
  for (const char* const path : {"/proc", "/proc/self/mem"}) {
    std::ifstream file(path, std::ios::binary);
    ASSERT_TRUE(file.is_open()) << path;
    EXPECT_EQ(RestOf(file), "") << path;
    EXPECT_TRUE(file.bad()) << path;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
