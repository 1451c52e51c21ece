#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {

// One fact of a profile as its file states it.
struct FrameworkFact {
  std::string key = {};
  std::string value = {};
  std::string source = {};
  std::string confidence = {};
};

struct FrameworkEntry {
  FrameworkProfile profile = {};
  std::vector<std::string> other_names = {};  // what people may call it
  std::vector<std::string> run_by = {};       // exports of their own for plans of this framework
  std::vector<std::string> versions = {};     // prefixes of the described versions
  bool is_default = false;                    // among the profiles of its framework
  std::vector<FrameworkFact> facts = {};      // own facts; the profile that it extends has the rest
};

struct FoundFramework {
  const FrameworkEntry* entry = nullptr;   // null: no framework has this name
  std::vector<std::string> warnings = {};  // unknown version
};

// The framework profiles that are compiled in (estimator/frameworks/*.json).
class FrameworkLibrary {
 public:
  static absl::StatusOr<FrameworkLibrary> LoadBuiltIn();

  // Adds one file; errors name the file and every bad key. The profile that it extends must have
  // been added before.
  absl::Status AddFile(std::string_view name, std::string_view text);

  // Finds the profile of a framework and version. An empty version takes the default profile; a
  // version that no profile describes takes the default one with a warning.
  [[nodiscard]] FoundFramework Find(std::string_view name, std::string_view version) const;

  // Returns the framework that another one runs, such as megatron-core for nemo; null if it runs
  // none.
  [[nodiscard]] const FrameworkEntry* RunBy(std::string_view name) const;

  [[nodiscard]] const std::vector<FrameworkEntry>& entries() const { return entries_; }
  [[nodiscard]] std::vector<std::string> Names() const;  // sorted, each once
  // Returns the names, those that are most like `name` first.
  [[nodiscard]] std::vector<std::string> NamesLike(std::string_view name) const;

 private:
  std::vector<FrameworkEntry> entries_;
};

}  // namespace meshwright
