#include "server/process/shell_word.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "server/process/command.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(ShellWordTest, AShellTakesTheWordUnchanged) {
  for (const std::string word :
       {"", "plain", "two words", "it's", "$HOME `id` \"x\" \\", "a\nb", "*"}) {
    SCOPED_TRACE(word);
    const auto done =
        RunCommand({"/bin/sh", "-c", "printf '%s' " + ShellWord(word)}, "", Seconds(60));
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(done->out, word);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
