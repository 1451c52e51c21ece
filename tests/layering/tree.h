#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/layering/layering.h"

namespace meshwright {

// The sources of the product: text by path from the root of the repository.
using SourceTree = std::map<std::string, std::string>;

// A room is a source with its header. This is the most that a folder may have.
inline constexpr int kMaxRooms = 25;

// Returns one violation for each circle of rooms that include each other, and for each circle of
// folders.
std::vector<Violation> FindCircles(const SourceTree& tree);

// Returns a violation for each room that names a type of another folder without including the
// header that declares the type. Such an arrow between folders would be invisible.
std::vector<Violation> FindHiddenArrows(const SourceTree& tree);

// Returns a violation for each folder with more than kMaxRooms rooms.
std::vector<Violation> FindLargeFolders(const SourceTree& tree);

// Returns, for each folder, the other folders that it includes headers of.
std::map<std::string, std::set<std::string>> FolderArrows(const SourceTree& tree);

// Returns the folders by floor, lowest first. A folder is one floor above the highest folder that
// it includes headers of. The tree must not have a circle.
std::vector<std::vector<std::string>> FloorsOf(const SourceTree& tree);

}  // namespace meshwright
