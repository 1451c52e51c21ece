#include "tests/layering/tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "tests/layering/declarations.h"

namespace meshwright {
namespace {

using Graph = std::map<std::string, std::set<std::string>>;

std::string FolderOf(std::string_view path) { return std::string(path.substr(0, path.rfind('/'))); }

// The path without ".h" or ".cc".
std::string RoomOf(std::string_view path) { return std::string(path.substr(0, path.rfind('.'))); }

// The headers of the tree that a source includes.
std::set<std::string> IncludedBy(const SourceTree& tree, std::string_view text) {
  std::set<std::string> headers;
  for (const std::string_view line : SplitLines(text)) {
    const std::optional<Include> include = ParseInclude(line);
    if (!include.has_value()) continue;
    const auto found = tree.find(std::string(include->header));
    if (found != tree.end()) headers.insert(found->first);
  }
  return headers;
}

// The arrows between what `group` makes of the paths.
Graph ArrowsBetween(const SourceTree& tree,
                    const std::function<std::string(std::string_view)>& group) {
  Graph graph;
  for (const auto& [path, text] : tree) {
    const std::string from = group(path);
    graph[from];
    for (const std::string& header : IncludedBy(tree, text)) {
      const std::string to = group(header);
      if (to != from) graph[from].insert(to);
    }
  }
  return graph;
}

// Finds the strongly connected components of more than one node (Tarjan 1972).
class CircleFinder {
 public:
  explicit CircleFinder(const Graph& graph) : graph_(graph) {
    for (const auto& [node, arrows] : graph) {
      if (!index_.contains(node)) Visit(node);
    }
  }

  [[nodiscard]] const std::vector<std::set<std::string>>& circles() const { return circles_; }

 private:
  void Visit(const std::string& node) {
    const int index = static_cast<int>(index_.size());
    index_[node] = index;
    lowest_[node] = index;
    stack_.push_back(node);
    for (const std::string& next : graph_.at(node)) {
      if (!index_.contains(next)) {
        Visit(next);
        lowest_[node] = std::min(lowest_[node], lowest_[next]);
      } else if (std::ranges::find(stack_, next) != stack_.end()) {
        lowest_[node] = std::min(lowest_[node], index_[next]);
      }
    }
    if (lowest_[node] != index) return;
    const auto start = std::ranges::find(stack_, node);
    const std::set<std::string> circle(start, stack_.end());
    stack_.erase(start, stack_.end());
    if (circle.size() > 1) circles_.push_back(circle);
  }

  const Graph& graph_;
  std::map<std::string, int> index_;
  std::map<std::string, int> lowest_;
  std::vector<std::string> stack_;
  std::vector<std::set<std::string>> circles_;
};

void AddCircles(const Graph& graph, std::string_view kind, std::vector<Violation>& violations) {
  const CircleFinder finder(graph);
  for (const std::set<std::string>& circle : finder.circles()) {
    violations.push_back({.file = *circle.begin(),
                          .line = 1,
                          .message = fmt::format("{} that include each other in a circle: {}", kind,
                                                 fmt::join(circle, ", "))});
  }
}

// The types, functions and constants that headers of the tree declare.
class DeclaredNames {
 public:
  explicit DeclaredNames(const SourceTree& tree) {
    for (const auto& [path, text] : tree) {
      declared_[path] = DeclarationsOf(text);
      if (!path.ends_with(".h")) continue;
      for (const std::string& name : declared_[path].outer) headers_[name].insert(path);
    }
  }

  // Returns true if one of the files declares the name.
  bool IsDeclaredIn(const std::set<std::string>& paths, const std::string& name) const {
    return std::ranges::any_of(paths,
                               [&](const std::string& path) { return Declares(path, name); });
  }

  // Returns the header of another folder that `path` must include to use `name`; nullptr if there
  // is none, if `path` or its own header declares the name itself, or if two headers declare it,
  // because then this check cannot tell which one is meant.
  const std::string* HeaderOf(const std::string& name, const std::string& path) const {
    const auto found = headers_.find(name);
    if (found == headers_.end() || found->second.size() > 1) return nullptr;
    const std::string& header = *found->second.begin();
    if (FolderOf(header) == FolderOf(path)) return nullptr;
    return Declares(path, name) || Declares(RoomOf(path) + ".h", name) ? nullptr : &header;
  }

 private:
  bool Declares(const std::string& path, const std::string& name) const {
    const auto found = declared_.find(path);
    return found != declared_.end() && found->second.Declares(name);
  }

  std::map<std::string, std::set<std::string>, std::less<>> headers_;
  std::map<std::string, Declarations> declared_;
};

// Returns the files that `path` includes, itself or through the header of its own room.
std::set<std::string> IncludedByRoom(const SourceTree& tree, const std::string& path) {
  std::set<std::string> included = IncludedBy(tree, tree.at(path));
  if (const auto own = tree.find(RoomOf(path) + ".h"); own != tree.end()) {
    included.merge(IncludedBy(tree, own->second));
  }
  return included;
}

}  // namespace

std::vector<Violation> FindCircles(const SourceTree& tree) {
  std::vector<Violation> violations;
  AddCircles(ArrowsBetween(tree, RoomOf), "rooms", violations);
  AddCircles(ArrowsBetween(tree, FolderOf), "folders", violations);
  return violations;
}

std::vector<Violation> FindHiddenArrows(const SourceTree& tree) {
  const DeclaredNames names(tree);
  std::vector<Violation> violations;
  for (const auto& [path, text] : tree) {
    const std::set<std::string> included = IncludedByRoom(tree, path);
    for (const NameUse& use : NamesUsedIn(text)) {
      const std::string* header = names.HeaderOf(use.name, path);
      if (header == nullptr || names.IsDeclaredIn(included, use.name)) continue;
      violations.push_back(
          {.file = path,
           .line = use.line,
           .message = fmt::format("uses {} without including {}", use.name, *header)});
    }
  }
  return violations;
}

std::vector<Violation> FindLargeFolders(const SourceTree& tree) {
  std::map<std::string, std::set<std::string>> rooms;
  for (const auto& [path, text] : tree) rooms[FolderOf(path)].insert(RoomOf(path));
  std::vector<Violation> violations;
  for (const auto& [folder, names] : rooms) {
    if (static_cast<int>(names.size()) <= kMaxRooms) continue;
    violations.push_back({.file = folder,
                          .line = 1,
                          .message = fmt::format("{} rooms; at most {}: divide it by concept",
                                                 names.size(), kMaxRooms)});
  }
  return violations;
}

std::map<std::string, std::set<std::string>> FolderArrows(const SourceTree& tree) {
  return ArrowsBetween(tree, FolderOf);
}

std::vector<std::vector<std::string>> FloorsOf(const SourceTree& tree) {
  const Graph graph = ArrowsBetween(tree, FolderOf);
  std::map<std::string, std::size_t> floor;
  const std::function<std::size_t(const std::string&)> find = [&](const std::string& folder) {
    if (const auto known = floor.find(folder); known != floor.end()) return known->second;
    std::size_t own = 0;
    for (const std::string& below : graph.at(folder)) own = std::max(own, find(below) + 1);
    floor[folder] = own;
    return own;
  };
  std::vector<std::vector<std::string>> floors;
  for (const auto& [folder, arrows] : graph) {
    const std::size_t own = find(folder);
    if (floors.size() <= own) floors.resize(own + 1);
    floors[own].push_back(folder);
  }
  return floors;
}

}  // namespace meshwright
