#include "tests/layering/tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/files/source_folder.h"
#include "tests/layering/declarations.h"
#include "tests/layering/folders.h"
#include "tests/layering/page_paths.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

// Returns a small product with two floors, and a room that names a type of the floor below.
SourceTree SmallTree() {
  return {
      {"low/size.h", "#pragma once\nstruct Size { int bytes = 0; };\n"},
      {"low/size.cc", "#include \"low/size.h\"\nint x;\n"},
      {"high/box.h", "#pragma once\n#include \"low/size.h\"\nstruct Box { Size size; };\n"},
      {"high/box.cc", "#include \"high/box.h\"\nSize SizeOf(Box box) { return box.size; }\n"},
      {"high/shelf.h", "#pragma once\n#include \"high/box.h\"\nstruct Shelf { Box box; };\n"},
  };
}

testing::Matcher<const Violation&> Says(const std::string& file, const std::string& words) {
  return AllOf(Field(&Violation::file, file), Field(&Violation::message, HasSubstr(words)));
}

TEST(SmallTreeTest, IsInOrder) {
  EXPECT_THAT(FindCircles(SmallTree()), IsEmpty());
  EXPECT_THAT(FindHiddenArrows(SmallTree()), IsEmpty());
  EXPECT_THAT(FindLargeFolders(SmallTree()), IsEmpty());
  EXPECT_THAT(FloorsOf(SmallTree()), ElementsAre(ElementsAre("low"), ElementsAre("high")));
}

TEST(SmallTreeTest, CircleOfRoomsIsFound) {
  SourceTree tree = SmallTree();
  tree["high/box.cc"] += "#include \"high/shelf.h\"\n";
  EXPECT_THAT(FindCircles(tree), ElementsAre(Says("high/box",
                                                  "rooms that include each other in a "
                                                  "circle: high/box, high/shelf")));
}

TEST(SmallTreeTest, CircleOfFoldersIsFound) {
  SourceTree tree = SmallTree();
  // The rooms form no circle, because size.cc and box.h are not in the same room as lid.
  tree["low/lid.cc"] = "#include \"high/shelf.h\"\n";
  EXPECT_THAT(FindCircles(tree), ElementsAre(Says("high", "folders")));
}

TEST(SmallTreeTest, HiddenArrowIsFound) {
  SourceTree tree = SmallTree();
  tree["high/shelf.cc"] =
      "#include \"high/shelf.h\"\n\nint Bytes(Size size) { return size.bytes; }\n";
  EXPECT_THAT(FindHiddenArrows(tree),
              ElementsAre(AllOf(Says("high/shelf.cc", "uses Size without including low/size.h"),
                                Field(&Violation::line, 3))));
}

// A forward declaration, a function and a constant are arrows too.
TEST(SmallTreeTest, EveryHiddenArrowIsFound) {
  for (const char* text : {"struct Size;\nvoid Print(const Size& size);\n",
                           "int half = HalfOf(2);\n", "int most = kMostBytes;\n"}) {
    SourceTree tree = SmallTree();
    tree["low/size.h"] += "int HalfOf(int bytes);\ninline constexpr int kMostBytes = 8;\n";
    tree["high/shelf.cc"] = std::string("#include \"high/shelf.h\"\n") + text;
    EXPECT_THAT(FindHiddenArrows(tree),
                ElementsAre(Says("high/shelf.cc", "without including low/size.h")))
        << text;
  }
}

struct NoArrow {
  std::string name;
  std::string text;  // of high/shelf.cc, which does not include low/size.h
};

class NoArrowTest : public testing::TestWithParam<NoArrow> {};

TEST_P(NoArrowTest, IsNotReported) {
  SourceTree tree = SmallTree();
  tree["high/shelf.cc"] = "#include \"high/shelf.h\"\n" + GetParam().text;
  EXPECT_THAT(FindHiddenArrows(tree), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, NoArrowTest,
    testing::Values(NoArrow{"Comment", "// Size of a shelf.\n"},
                    NoArrow{"String", "const char* text = \"Size\";\n"},
                    NoArrow{"OtherNamespace", "wire::Size size;\n"},
                    NoArrow{"OwnFunction", "int Size(Box box) { return box.size.bytes; }\n"},
                    NoArrow{"OwnType", "namespace { struct Size {}; }\nSize size;\n"},
                    NoArrow{"Included", "#include \"low/size.h\"\nSize size;\n"}),
    [](const auto& test) { return test.param.name; });

TEST(SmallTreeTest, LargeFolderIsFound) {
  SourceTree tree = SmallTree();
  for (int i = 0; i < kMaxRooms; ++i) {
    tree[fmt::format("low/room{}.h", i)] = "#pragma once\n";
    tree[fmt::format("low/room{}.cc", i)] = "int x;\n";  // the same room
  }
  EXPECT_THAT(FindLargeFolders(tree), ElementsAre(Says("low", "26 rooms; at most 25")));
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream.is_open()) << path;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

const std::filesystem::path kRoot = SourceFolder();

// Returns every file outside build/ and hidden folders, as paths from the root.
std::set<std::string> FilesOfTheTree() {
  std::set<std::string> files;
  std::filesystem::recursive_directory_iterator entry(kRoot);
  for (; entry != std::filesystem::recursive_directory_iterator(); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() &&
        (name.starts_with('.') || (entry.depth() == 0 && name == "build"))) {
      entry.disable_recursion_pending();
    }
    if (!entry->is_regular_file()) continue;
    files.insert(entry->path().lexically_relative(kRoot).generic_string());
  }
  return files;
}

std::vector<std::string> SourcesOfTheTree() {
  std::vector<std::string> sources;
  for (const std::string& path : FilesOfTheTree()) {
    if (path.ends_with(".h") || path.ends_with(".cc")) sources.push_back(path);
  }
  return sources;
}

SourceTree ProductOf(const std::vector<std::string>& sources) {
  SourceTree tree;
  for (const std::string& path : sources) {
    const FolderRule* const folder = FindFolder(path);
    if (folder == nullptr || folder->may_use_any_library) continue;
    tree[path] = ReadFile(kRoot / path);
  }
  return tree;
}

void ExpectNone(const std::vector<Violation>& violations) {
  for (const Violation& violation : violations) {
    ADD_FAILURE() << fmt::format("{}:{}: {}", violation.file, violation.line, violation.message);
  }
}

TEST(TreeTest, KeepsTheRules) {
  for (const std::string& path : SourcesOfTheTree()) {
    ExpectNone(CheckSource(path, ReadFile(kRoot / path)));
  }
}

// The walk above would also pass if it found nothing.
TEST(TreeTest, IsSeen) {
  std::set<std::string> folders;
  for (const std::string& path : SourcesOfTheTree()) {
    folders.insert(path.substr(0, path.find('/')));
  }
  EXPECT_THAT(folders, testing::IsSupersetOf({"search_space", "tests"}));
}

// The page and the check must agree.
TEST(TreeTest, ArchitectureNamesEveryFolder) {
  const std::string text = ReadFile(kRoot / "docs" / "architecture.md");
  for (const FolderRule& rule : FolderRules()) {
    // EXPECT_THAT would print the whole page.
    EXPECT_NE(text.find(fmt::format("`{}/`", rule.path)), std::string::npos)
        << "docs/architecture.md does not name " << rule.path;
  }
}

TEST(TreeTest, ArchitectureNamesNoPathThatIsGone) {
  const std::set<std::string> files = FilesOfTheTree();
  std::size_t count = 0;
  for (const std::string page :
       {"architecture.md", "architecture/requests.md", "architecture/next.md"}) {
    for (const NamedPath& named : PathsOnPage(ReadFile(kRoot / "docs" / page))) {
      ++count;
      EXPECT_TRUE(IsThere(named.path, files))
          << "docs/" << page << ":" << named.line << ": " << named.path << " is not there";
    }
  }
  EXPECT_GT(count, 100U);
}

// Prints the folders floor by floor, so that the log shows the structure.
TEST(TreeTest, HasFloors) {
  const SourceTree product = ProductOf(SourcesOfTheTree());
  ExpectNone(FindCircles(product));
  if (HasFailure()) return;
  const std::vector<std::vector<std::string>> floors = FloorsOf(product);
  for (std::size_t i = floors.size(); i-- > 0;) {
    std::cout << fmt::format("floor {:2}  {}\n", i + 1, fmt::join(floors[i], "  "));
  }
  EXPECT_THAT(floors.front(), testing::Contains("search_space/base"));
}

TEST(TreeTest, HidesNoArrow) { ExpectNone(FindHiddenArrows(ProductOf(SourcesOfTheTree()))); }

TEST(TreeTest, HasNoLargeFolder) { ExpectNone(FindLargeFolders(ProductOf(SourcesOfTheTree()))); }

// Returns true if a CMakeLists.txt in a folder of the path names it, relative to the folder.
bool IsBuilt(const std::filesystem::path& path) {
  for (std::filesystem::path folder = path.parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    const std::filesystem::path list = kRoot / folder / "CMakeLists.txt";
    if (!std::filesystem::exists(list)) continue;
    std::istringstream words(ReadFile(list));
    const std::string name = path.lexically_relative(folder).string();
    const std::istream_iterator<std::string> first(words);
    const std::istream_iterator<std::string> last;
    if (std::find(first, last, name) != last) {
      return true;
    }
  }
  return false;
}

// A test that is in no list of sources is never run, and nobody notices.
TEST(TreeTest, EveryTestIsBuilt) {
  int count = 0;
  for (const std::string& path : SourcesOfTheTree()) {
    if (!path.ends_with("_test.cc")) continue;
    ++count;
    EXPECT_TRUE(IsBuilt(path)) << path << " is in no CMakeLists.txt";
  }
  EXPECT_GT(count, 200);
}

// Each folder is one target of the build, and one row of the table.
TEST(TreeTest, EachFolderIsATarget) {
  std::set<std::string> folders;
  for (const auto& [path, text] : ProductOf(SourcesOfTheTree())) {
    folders.insert(path.substr(0, path.rfind('/')));
  }
  for (const std::string& folder : folders) {
    if (folder == "vendor_models/abi") continue;  // a header that vendors copy
    EXPECT_TRUE(std::filesystem::exists(kRoot / folder / "CMakeLists.txt")) << folder;
    const FolderRule* const rule = FindFolder(folder + "/x.cc");
    ASSERT_NE(rule, nullptr) << folder;
    EXPECT_EQ(rule->path, folder);
  }
}

// Returns the targets of other folders that a list of CMake names: words that begin with mw_.
std::set<std::string> TargetsIn(const std::string& list, const std::string& own) {
  std::set<std::string> targets;
  std::string word;
  for (const char c : list + "\n") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
      continue;
    }
    if (word.starts_with("mw_") && word != own) targets.insert(word);
    word.clear();
  }
  return targets;
}

// A folder links what it includes and nothing else, so that no target relies on what another one
// happens to link, and no arrow hides in the build.
TEST(TreeTest, EachFolderLinksWhatItIncludes) {
  const auto target_of = [](std::string folder) {
    std::ranges::replace(folder, '/', '_');
    return "mw_" + folder;
  };
  const std::map<std::string, std::set<std::string>> arrows =
      FolderArrows(ProductOf(SourcesOfTheTree()));
  std::set<std::string> folder_targets;
  for (const auto& [folder, used] : arrows) folder_targets.insert(target_of(folder));
  for (const auto& [folder, used] : arrows) {
    const std::filesystem::path list = kRoot / folder / "CMakeLists.txt";
    if (!std::filesystem::exists(list)) continue;
    std::set<std::string> linked = TargetsIn(ReadFile(list), target_of(folder));
    for (const std::string& other : used) {
      if (other == "vendor_models/abi") continue;  // a header without a target
      EXPECT_EQ(linked.erase(target_of(other)), 1U)
          << folder << "/CMakeLists.txt does not link " << target_of(other);
    }
    for (const std::string& left : linked) {
      EXPECT_FALSE(folder_targets.contains(left))
          << folder << "/CMakeLists.txt links " << left << ", which it does not include";
    }
  }
}

TEST(TreeTest, TableOfScriptsNamesEachOfThem) {
  const std::string table = ReadFile(kRoot / "scripts" / "README.md");
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot / "scripts")) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".sh") && !name.ends_with(".py")) continue;
    ++count;
    EXPECT_NE(table.find(fmt::format("`{}`", name)), std::string::npos)
        << "scripts/README.md does not name " << name;
  }
  EXPECT_GT(count, 10);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright
