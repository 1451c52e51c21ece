#pragma once

#include <span>
#include <string_view>

namespace meshwright {

// The tables of docs/architecture.md: the folders, the arrows between them, and the third-party
// headers that each folder may include.
//
// A list of folders is one text with a space between names. "server/rpc" means that folder only;
// "server/rpc/" means that folder and every folder inside it; "*" means every folder.

// One folder of the project. A file belongs to the row with the longest path that contains it.
struct FolderRule {
  std::string_view path;
  std::string_view may_use = {};     // list of folders whose headers may be included
  bool is_pure = false;              // no threads and no clock
  bool may_use_any_library = false;  // tests, benchmarks and templates, which are not the product
  bool has_subfolders = false;       // true if the row also holds for the folders inside it
};

std::span<const FolderRule> FolderRules();

// Third-party headers, by the beginning of their path. The longest prefix that matches applies. A
// header with a folder in its path that matches no prefix is refused.
struct LibraryRule {
  std::string_view prefix;
  std::string_view folders;      // list of folders that may include it
  bool sources_only = false;     // true if it may be included in .cc files only
  std::string_view reason = {};  // added to the message
  bool is_quoted =
      false;  // true for what is generated here, and for absl, as its documentation does
};

std::span<const LibraryRule> LibraryRules();

// A function that only some folders may call, because what it does is done once.
struct CallRule {
  std::string_view call;     // with its opening bracket
  std::string_view folders;  // list of folders that may call it; tests may too
  std::string_view reason;
};

std::span<const CallRule> CallRules();

// Returns the row for a file or header with this path from the root, or nullptr if there is none.
const FolderRule* FindFolder(std::string_view path);

// Returns the row of the library that a header belongs to, or nullptr if no row matches.
const LibraryRule* FindLibrary(std::string_view header);

// Returns true if a list of folders names `folder`.
bool Names(std::string_view list, std::string_view folder);

}  // namespace meshwright
