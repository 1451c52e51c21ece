#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// A figure of a chip that measurements changed.
struct FigureChange {
  std::string name = {};
  std::string before = {};  // empty: it had none
  std::string after = {};   // "removed", or the value
  Provenance provenance = Provenance::kFitted;
};

// The source of a figure.
struct FigureOrigin {
  Provenance provenance = Provenance::kFitted;
  std::string what = {};  // end of the source's text
  Confidence confidence = Confidence::kHigh;
};

// A chip during its calibration. Records every change and its source.
class ChipDraft {
 public:
  // `origin` is the beginning of the source of each figure that is set.
  ChipDraft(const ChipEntry& base, std::string origin);

  [[nodiscard]] ChipSpec& spec() { return entry_.spec; }
  [[nodiscard]] const ChipEntry& entry() const { return entry_; }
  [[nodiscard]] const std::vector<FigureChange>& changes() const { return changes_; }

  [[nodiscard]] bool IsPublished(std::string_view figure) const;

  // Sets a number of `figures`.
  void Set(std::string_view name, std::string value, const FigureOrigin& origin);

  // Records the source of a row of a list (a collective, a table). The caller puts the row itself
  // into spec().
  void SetRow(const std::string& name, std::string value, const FigureOrigin& origin);
  void RemoveRow(const std::string& name);

 private:
  [[nodiscard]] ChipFigure Made(std::string_view name, std::string value,
                                const FigureOrigin& origin) const;
  void Note(std::string_view name, std::string after, Provenance provenance);

  ChipEntry entry_;
  std::string origin_;
  std::vector<FigureChange> changes_;
};

}  // namespace meshwright
