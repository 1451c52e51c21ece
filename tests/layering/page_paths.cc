#include "tests/layering/page_paths.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "tests/layering/layering.h"

namespace meshwright {
namespace {

constexpr std::string_view kPathCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
constexpr std::string_view kEndings[] = {".cc", ".h", ".py", ".sh", ".md", ".proto"};

// Returns the path that a text in backticks is, or an empty one.
std::string PathOf(std::string_view text) {
  if (text.starts_with("build/")) return {};
  if (const std::size_t open = text.find('<'); open != std::string_view::npos) {
    const std::size_t slash = text.substr(0, open).rfind('/');
    if (slash == std::string_view::npos) return {};
    text = text.substr(0, slash + 1);
  }
  if (text.find_first_not_of(kPathCharacters) != std::string_view::npos) return {};
  const bool is_file = std::ranges::any_of(
      kEndings, [text](std::string_view ending) { return text.ends_with(ending); });
  const bool is_path = is_file || text.find('/') != std::string_view::npos;
  return is_path ? std::string(text) : std::string();
}

// Returns the texts between the backticks of a line.
std::vector<std::string_view> QuotedIn(std::string_view line) {
  std::vector<std::string_view> texts;
  for (std::size_t open = line.find('`'); open != std::string_view::npos; open = line.find('`')) {
    line.remove_prefix(open + 1);
    const std::size_t close = line.find('`');
    if (close == std::string_view::npos) break;
    texts.push_back(line.substr(0, close));
    line.remove_prefix(close + 1);
  }
  return texts;
}

bool IsHeading(std::string_view line) { return line.starts_with('#'); }

bool IsHeadingOfDoors(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
  return line.starts_with("Doors");
}

}  // namespace

std::vector<NamedPath> PathsOnPage(std::string_view page) {
  std::vector<NamedPath> paths;
  bool is_code = false;
  bool is_of_doors = false;
  int number = 0;
  for (const std::string_view line : SplitLines(page)) {
    ++number;
    if (line.starts_with("```")) is_code = !is_code;
    if (!is_code && IsHeading(line)) is_of_doors = IsHeadingOfDoors(line);
    if (is_code || is_of_doors) continue;
    for (const std::string_view text : QuotedIn(line)) {
      if (std::string path = PathOf(text); !path.empty()) {
        paths.push_back({.path = std::move(path), .line = number});
      }
    }
  }
  return paths;
}

bool IsThere(std::string_view path, const std::set<std::string>& files) {
  if (path.ends_with('/')) path.remove_suffix(1);
  const std::string folder = std::string(path) + "/";
  const std::string end = "/" + std::string(path);
  return std::ranges::any_of(files, [&](const std::string& file) {
    return file == path || file.starts_with(folder) || file.ends_with(end);
  });
}

}  // namespace meshwright
