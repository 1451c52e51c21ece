#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The source of a figure that a chip file omits.
inline constexpr std::string_view kClassDefault = "class default";

// One figure of a chip as people read it, with its source. A figure that the file omits has its
// class default, with provenance assumed and confidence low.
struct ChipFigure {
  std::string name = {};   // key in the file, with the unit: `memory_bandwidth_bytes_per_second`
  std::string value = {};  // `2039000000000`, `nvlink3`
  std::string source = {};
  Provenance provenance = Provenance::kAssumed;
  Confidence confidence = Confidence::kLow;
  bool operator==(const ChipFigure&) const = default;
};

// A name by which a vendor's tool, PyTorch or a label of Kubernetes knows the chip.
struct ReportedName {
  std::string name = {};    // `NVIDIA H100 80GB HBM3`
  std::string source = {};  // where the name and its chip are published
  bool operator==(const ReportedName&) const = default;
};

struct ChipEntry {
  ChipSpec spec = {};
  std::vector<ReportedName> reported_names = {};
  std::vector<ChipFigure> figures = {};
  std::string notes = {};
  bool is_built_in = false;  // false: it is from a folder of the site
  bool operator==(const ChipEntry&) const = default;
};

// Reads one chip file (vendor_models/README.md describes it). `name` is the file's name without
// folder and `.json`, and must be the chip's id. The error lists everything that is wrong.
absl::StatusOr<ChipEntry> ParseChipFile(std::string_view name, std::string_view text);

}  // namespace meshwright
