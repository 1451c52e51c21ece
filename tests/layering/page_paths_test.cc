#include "tests/layering/page_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

TEST(PathsOnPageTest, AreFoldersAndFilesInBackticks) {
  EXPECT_THAT(PathsOnPage("# Page\n"
                          "`low/` and `size.h`, declared in `low/room/<name>.cc`,\n"
                          "but not `Size`, `--flag`, `if (x / y)`, `<name>.cc` or low/plain.h.\n"
                          "```\n"
                          "`in/code.cc`\n"
                          "```\n"
                          "### Doors for what comes\n"
                          "`later/`\n"
                          "## Next\n"
                          "`build/release/bin/x` and `high/box.cc`\n"),
              ElementsAre(NamedPath{"low/", 2}, NamedPath{"size.h", 2}, NamedPath{"low/room/", 2},
                          NamedPath{"high/box.cc", 10}));
}

TEST(PathsOnPageTest, MayBeShort) {
  const std::set<std::string> files = {"high/box.cc", "low/room/size.h"};
  for (const char* path : {"high/box.cc", "box.cc", "room/size.h", "low/", "low/room", "high"}) {
    EXPECT_TRUE(IsThere(path, files)) << path;
  }
  for (const char* path : {"ox.cc", "low/size.h", "room/", "high/box", "low/room/size.cc"}) {
    EXPECT_FALSE(IsThere(path, files)) << path;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
