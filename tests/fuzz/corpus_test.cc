#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sanitizer/common_interface_defs.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/files/temporary_folder.h"
#include "tests/fuzz/mutations.h"
#include "tests/fuzz/targets.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Enough to find what breaks at once; bench/fuzz.sh finds the rest.
constexpr std::uint64_t kMutationsOfTarget = 300;

void PrintTo(const FuzzTarget& target, std::ostream* out) { *out << target.name; }

// The input that is being read, for the message of a sanitizer.
std::string& Current() {
  static auto* const current = new std::string;
  return *current;
}

void SayInput() { std::fprintf(stderr, "The input was %s.\n", Current().c_str()); }

class FuzzCorpusTest : public testing::TestWithParam<FuzzTarget> {
 protected:
  FuzzCorpusTest() { __sanitizer_set_death_callback(SayInput); }

  void Try(const std::string& input, const std::string& what) {
    Current() = fmt::format("{}: {}", GetParam().name, what);
    const BrokenLaw broken = GetParam().broken_law(input);
    if (broken.has_value()) ADD_FAILURE() << Current() << ": " << *broken;
  }
};

TEST_P(FuzzCorpusTest, KeepsItsLaws) {
  const std::vector<std::filesystem::path> paths = SeedsOf(GetParam());
  ASSERT_FALSE(paths.empty()) << "tests/fuzz/corpus/" << GetParam().name << " has no inputs";
  std::vector<std::string> seeds;
  for (const std::filesystem::path& path : paths) {
    seeds.push_back(ReadFile(path));
    Try(seeds.back(), path.filename().string());
  }
  for (std::uint64_t number = 0; number < kMutationsOfTarget && !HasFailure(); ++number) {
    const std::size_t seed = number % seeds.size();
    const std::string& other = seeds[(seed + number / seeds.size()) % seeds.size()];
    Try(Mutated(seeds[seed], other, number),
        fmt::format("{} with mutation {}", paths[seed].filename().string(), number));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpusTest,
                         testing::ValuesIn(FuzzTargets().begin(), FuzzTargets().end()),
                         [](const auto& param) { return std::string(param.param.name); });

// The laws themselves can fail.
TEST(FuzzLawsTest, BrokenLawsAreSaid) {
  EXPECT_FALSE(TextLaw("one line\nand another").has_value());
  EXPECT_TRUE(TextLaw("\xff").has_value());
  EXPECT_TRUE(TextLaw("\x1b[2J").has_value());
  EXPECT_TRUE(TextLaw(std::string(200'000, 'a')).has_value());
  EXPECT_TRUE(ErrorLaw(absl::NotFoundError("\xff")).has_value());
  EXPECT_TRUE(ErrorLaw(absl::NotFoundError("")).has_value());
  EXPECT_FALSE(ErrorLaw(absl::OkStatus()).has_value());
}

TEST(FuzzLawsTest, MutationsAreRepeatable) {
  EXPECT_EQ(Mutated("tp2.sp1", "{}", 7), Mutated("tp2.sp1", "{}", 7));
  EXPECT_NE(Mutated("tp2.sp1", "{}", 7), Mutated("tp2.sp1", "{}", 8));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
