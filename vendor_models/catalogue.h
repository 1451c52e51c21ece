#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vendor_models/chip_file.h"
#include "vendor_models/chip_names.h"

namespace meshwright {

// A chip that is known only by name, and the reason why it cannot be modelled.
struct UnmodelledChip {
  std::string id = {};
  std::string name = {};
  std::vector<std::string> aliases = {};
  std::string missing = {};
  bool operator==(const UnmodelledChip&) const = default;
};

// All chips that a request can name. The catalogue is a value: load it once and pass it by
// reference. Its const functions may be called from any thread.
class Catalogue {
 public:
  // Loads the built-in chips.
  static absl::StatusOr<Catalogue> LoadBuiltIn();

  // Loads the built-in chips and every *.json of the site's folder, in the order of their names; an
  // empty path means no folder. The error lists the mistakes of all files.
  static absl::StatusOr<Catalogue> Load(std::string_view extra_folder);

  // Adds a chip of the site. It replaces a built-in or unmodelled chip with the same id, because a
  // site knows its own machines best. Invalidates pointers from Find().
  absl::Status AddFile(std::string_view name, std::string_view text);

  // Finds a chip by its id, or by a name, alias or reported name as vendors' tools and the labels
  // of Kubernetes print them: case, separators and the vendor's name in front do not count; ids
  // take precedence. Reasons of errors: UNKNOWN_CHIP (lists a few of the same vendor),
  // AMBIGUOUS_CHIP (lists the matches), CHIP_NOT_MODELLED (says what is missing), PARTIAL_DEVICE
  // (the name of a slice or of a shared device).
  [[nodiscard]] absl::StatusOr<const ChipEntry*> Find(std::string_view id_or_alias) const;

  [[nodiscard]] std::span<const ChipEntry> chips() const { return chips_; }  // sorted by id
  [[nodiscard]] std::span<const UnmodelledChip> unmodelled() const { return unmodelled_; }

 private:
  void Insert(ChipEntry entry);
  absl::Status Partial(std::string_view wanted, const PartialName& part) const;
  absl::Status Unknown(std::string_view wanted) const;

  std::vector<ChipEntry> chips_;
  std::vector<UnmodelledChip> unmodelled_;
};

}  // namespace meshwright
