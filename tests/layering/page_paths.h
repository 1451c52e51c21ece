#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

// A path of the repository that a page of the documentation names.
struct NamedPath {
  std::string path = {};
  int line = 0;
  bool operator==(const NamedPath&) const = default;
};

// Returns the paths in backticks of a page in Markdown: texts with a slash, and names of sources
// and pages. A place to be filled in (`<name>`) ends a path at the folder before it. Blocks of
// code, build outputs, and sections whose heading begins with "Doors" are left out: the doors are
// for folders that are not there yet.
std::vector<NamedPath> PathsOnPage(std::string_view page);

// Returns true if one of the files is at the path, in the folder that it names, or ends in it:
// "search/exhaustive.cc" is short for "server/tuner/search/exhaustive.cc".
bool IsThere(std::string_view path, const std::set<std::string>& files);

}  // namespace meshwright
