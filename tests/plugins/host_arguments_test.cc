#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/process/command.h"
#include "server/process/exit_code.h"
#include "tests/files/temporary_folder.h"
#include "tests/plugins/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Numbers = std::map<std::string, std::string>;

// Runs `true` as the server runs a model, with these numbers on the command line.
CommandOutput Confined(const Numbers& numbers) {
  const TemporaryFolder folder;
  // The server switches the search for leaks off too: it cannot trace a process that is confined.
  std::vector<std::string> words = {"/usr/bin/env",
                                    "ASAN_OPTIONS=detect_leaks=0",
                                    BuiltProgram("meshwright-costmodel-host"),
                                    "--confine",
                                    "--folder",
                                    folder.path()};
  for (const auto& [flag, value] : numbers) words.insert(words.end(), {flag, value});
  words.insert(words.end(), {"--", "/bin/true"});
  const auto output = RunCommand(words, "", Seconds(120));
  EXPECT_TRUE(output.ok()) << output.status();
  return output.value_or(CommandOutput());
}

Numbers GoodNumbers() {
  return {{"--parent", std::to_string(getpid())},
          {"--memory-bytes", "1000000000000"},
          {"--cpu-seconds", "600"},
          {"--file-bytes", "1000000"},
          {"--open-files", "64"},
          {"--processes", "8"}};
}

TEST(HostArgumentsTest, GoodNumbers) {
  const CommandOutput output = Confined(GoodNumbers());
  EXPECT_EQ(output.exit_code, 0) << output.err;
}

// Without one of its limits the program would not be confined.
TEST(HostArgumentsTest, ANumberThatCannotBeReadIsRefused) {
  std::vector<std::pair<std::string, std::string>> cases;
  for (const auto& [flag, good] : GoodNumbers()) cases.emplace_back(flag, "many");
  for (const char* const value : {"", "8x", "-1", "0", "99999999999999999999"}) {
    cases.emplace_back("--processes", value);
  }
  for (const auto& [flag, value] : cases) {
    Numbers numbers = GoodNumbers();
    numbers[flag] = value;
    const CommandOutput output = Confined(numbers);
    EXPECT_EQ(output.exit_code, kExitUsage) << flag << " " << value;
    EXPECT_EQ(output.out, "") << flag << " " << value;
    EXPECT_EQ(output.err,
              fmt::format("error: {} = '{}'; must be a whole number of at least 1\n", flag, value));
  }
}

TEST(HostArgumentsTest, ANumberThatIsAbsentIsRefused) {
  for (const auto& [flag, good] : GoodNumbers()) {
    Numbers numbers = GoodNumbers();
    numbers.erase(flag);
    const CommandOutput output = Confined(numbers);
    EXPECT_EQ(output.exit_code, kExitUsage) << flag;
    EXPECT_EQ(output.err, fmt::format("error: {} is absent; must be a number\n", flag));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
