#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// A chip that is known by name only, and what keeps it from being modelled.
struct UnmodelledChip {
  std::string id = {};
  std::string name = {};
  std::vector<std::string> aliases = {};
  std::string missing = {};
  bool operator==(const UnmodelledChip&) const = default;
};

// All chips that can be named in a request. A value: load it once, pass it by reference; const
// functions may be called from any thread.
class Catalogue {
 public:
  // The chips that are compiled in.
  static absl::StatusOr<Catalogue> LoadBuiltIn();

  // The same, and every *.json of the site's folder in the order of their names; an empty path
  // means no folder. The errors of all its files are listed at once.
  static absl::StatusOr<Catalogue> Load(std::string_view extra_folder);

  // Adds a chip of the site. It takes the place of the built-in chip, or of the unmodelled one,
  // that has the same id: a site knows its own machines best. Invalidates pointers from Find().
  absl::Status AddFile(std::string_view name, std::string_view text);

  // By id, name or alias, in any case of letters; ids go first. Reasons of errors: UNKNOWN_CHIP,
  // AMBIGUOUS_CHIP (lists the matches), CHIP_NOT_MODELLED (says what is missing).
  [[nodiscard]] absl::StatusOr<const ChipEntry*> Find(std::string_view id_or_alias) const;

  [[nodiscard]] std::span<const ChipEntry> chips() const { return chips_; }  // sorted by id
  [[nodiscard]] std::span<const UnmodelledChip> unmodelled() const { return unmodelled_; }

 private:
  void Insert(ChipEntry entry);
  absl::Status Unknown(std::string_view wanted) const;

  std::vector<ChipEntry> chips_;
  std::vector<UnmodelledChip> unmodelled_;
};

}  // namespace meshwright
